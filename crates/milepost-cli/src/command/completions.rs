//! `completions`: what a shell needs to complete commands and flags.

use crate::cli::whole;
use crate::error::CommandError;
use crate::present::Output;

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

pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole(), "milepost", &mut script);
    if output.json {
        let script = String::from_utf8_lossy(&script);
        return output.document(&serde_json::json!({ "schema": "milepost.completions/1", "script": script }));
    }
    output.bytes(&script)
}
