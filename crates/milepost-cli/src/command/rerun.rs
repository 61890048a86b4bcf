//! `resume --rerun`: shows the recorded command of a run, asks for confirmation, and starts it again.

use std::path::Path;
use std::process::Command;

use milepost::ReasonCode;
use milepost::internal::engine::RunAssessment;
use milepost::model::RunId;

use super::resume::{ensure_eligible, replace_process, set_working_directory};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::handover;
use crate::present::format;

/// Starts the recorded command again in the same run. The command comes from the store, so it is shown and
/// must be confirmed first. The new process replaces this one; the function returns only on failure.
pub(super) fn run(from: &RunAssessment, run: &RunId, context: &Context<'_>) -> Result<CommandError> {
    let record = from.detail.summary().intact();
    let command = record.and_then(|record| record.command().clone()).filter(|command| !command.is_empty());
    let Some(command) = command else {
        return Err(CommandError::usage(format!("run {run} has no recorded command"))
            .with_hint("only runs of `milepost run -- CMD` have one"));
    };
    if let Some(word) = command.iter().find(|word| word.contains("[redacted:")) {
        return Err(CommandError::new(
            ReasonCode::StateRedacted,
            format!(
                "the command was recorded without its secrets ({word}) and cannot be started as recorded"
            ),
        )
        .with_exit(Exit::Failed)
        .with_hint(format!("start it yourself: milepost run --rejoin --run {run} -- CMD…")));
    }
    ensure_eligible(from)?;
    let folder = handover::root(from, context);
    confirm(from, run, &command, &folder, context)?;
    let program = std::env::current_exe().map_err(milepost::Error::file("milepost", "read"))?;
    let mut again = Command::new(program);
    again.args(["run", "--rejoin", "--run", run.as_str(), "--"]).args(&command);
    set_working_directory(&mut again, Some(&folder))?;
    Ok(replace_process("milepost run", again))
}

/// Shows the recorded command and asks for confirmation. `--yes` skips the question for the user's own runs,
/// but never for foreign ones.
fn confirm(
    from: &RunAssessment,
    run: &RunId,
    command: &[String],
    folder: &Path,
    context: &Context<'_>,
) -> Result<()> {
    let output = context.output;
    let shown = format::clean(&shell_words(command));
    let foreign = handover::is_foreign(from) || context.foreign().is_some();
    let lead = match from.detail.summary().intact().and_then(|record| record.origin()) {
        Some(origin) => format!("run {run} came from {} {}", origin.kind, format::clean(&origin.from)),
        None => format!("run {run} recorded this command"),
    };
    output.message_always(&format!("{lead}:\n  {shown}\nin {}", folder.display()));
    if output.yes && !foreign {
        return Ok(());
    }
    match output.confirm("Run it?") {
        Some(true) => Ok(()),
        Some(false) => Err(CommandError::new(ReasonCode::ConfirmationNeeded, "the command was not run")),
        None => Err(CommandError::new(
            ReasonCode::ConfirmationNeeded,
            format!("{shown} was not run: it was not confirmed"),
        )
        .with_hint(match foreign {
            true => {
                format!("if you trust it, start it yourself: milepost run --rejoin --run {run} -- {shown}")
            }
            false => "pass --yes to skip this question".to_owned(),
        })),
    }
}

/// Quotes a command for a shell.
fn shell_words(command: &[String]) -> String {
    let plain = |word: &str| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
        !word.is_empty() && word.chars().all(safe)
    };
    let quoted = |word: &String| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
