//! `completions`: what a shell needs to complete commands and flags.

use crate::cli::full_command;
use crate::present::reference::CompletionsDocument;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost completions bash > ~/.local/share/bash-completion/completions/milepost\n  \
                        milepost completions zsh > ~/.zfunc/_milepost"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn execute(args: &CompletionsArgs) -> CompletionsDocument {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut full_command(), "milepost", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    CompletionsDocument { script }
}
