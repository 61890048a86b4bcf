//! `completions`: prints a shell completion script.

use crate::completion;
use crate::error::{CommandError, Result};
use crate::present::reference::CompletionsDocument;

/// Print a shell completion script
///
/// The script calls milepost for candidates at every completion: commands, flags, runs, checkpoints, tags and
/// stores. Values are read only from a store that you trust. Print the script again after an update.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  echo 'eval \"$(milepost completions bash)\"' >> ~/.bashrc\n  \
                        milepost completions zsh > ~/.zfunc/_milepost   # a folder of fpath\n  \
                        milepost completions fish > ~/.config/fish/completions/milepost.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL", value_parser = clap::builder::PossibleValuesParser::new(completion::shell_names()))]
    shell: String,
}

pub(crate) fn execute(args: &CompletionsArgs) -> Result<CompletionsDocument> {
    let script = completion::registration(&args.shell);
    let script =
        script.ok_or_else(|| CommandError::usage(format!("no completion script for {}", args.shell)))?;
    Ok(CompletionsDocument { script })
}
