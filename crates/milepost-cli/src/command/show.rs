//! `show`: verifies a checkpoint and shows it, or prints a file as it was.

use std::path::Path;

use milepost::internal::diff::is_binary;
use milepost::internal::engine::RestorePointQuery;
use milepost::store::StoreError;
use milepost::{Error, FileContent, ReasonCode, Reference};

use super::worktree_path;
use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::checkpoint::ShowDocument;
use crate::present::file::{FileDocument, FoundFile};
use crate::present::one_of::OneOf;

/// Maximum number of messages in the document for an agent, whose context is limited.
const MESSAGES_FOR_AGENTS: usize = 20;

/// Maximum number of restore points in the document, and how many checkpoints are searched for them. A long history
/// must not slow the command down.
const RESTORE_POINTS: usize = 50;
const CHECKPOINTS_WITH_POINTS: usize = 200;

/// Show a checkpoint, or a file as it was
///
/// REF is an id, a short id or the start of one, `latest`, `latest~2`, `RUN@12`, a tag, or an id from an
/// import. If the newest checkpoint is damaged, plain `latest` shows the newest intact one and exits with 3.
/// For the newest checkpoint of a run, also shows what was recorded since.
///
/// REF:PATH prints a file as it was at that checkpoint. REF can then also be `prompt` for the files before
/// the newest prompt, or `prompt~2`. PATH is relative to the current folder, or else to the worktree.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost show\n  milepost show nightly@12\n  milepost show latest~1 --json\n  \
                  milepost show latest:src/main.rs\n  milepost show prompt~1:notes.md > notes.md"
)]
pub(crate) struct ShowArgs {
    /// Checkpoint to show, or REF:PATH for a file
    #[arg(value_name = "REF", default_value = "latest", add = Values::Reference)]
    pub(super) reference: String,
}

pub(crate) fn execute(args: ShowArgs, context: &Context<'_>) -> Result<OneOf<ShowDocument, FileDocument>> {
    let Some((reference, path)) = args.reference.split_once(':') else {
        return show_checkpoint(&args, context).map(OneOf::First);
    };
    if names_checkpoint(&args.reference, context)? {
        return show_checkpoint(&args, context).map(OneOf::First);
    }
    if path.is_empty() {
        return Err(CommandError::usage(format!("{} names no file after the colon", args.reference))
            .with_hint(format!("write {reference}:PATH for a file, or {reference} for the checkpoint")));
    }
    show_file(reference, Path::new(path), context).map(OneOf::Second)
}

/// Whether a text with a colon is the name of a checkpoint. Tags from before colons were refused, and ids from
/// imports, can have one.
fn names_checkpoint(text: &str, context: &Context<'_>) -> Result<bool> {
    let mp = context.open_existing()?;
    Ok(text.parse().is_ok_and(|reference| mp.find(&reference, None).is_ok()))
}

/// Shows what a checkpoint recorded.
pub(super) fn show_checkpoint(args: &ShowArgs, context: &Context<'_>) -> Result<ShowDocument> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let shown = match mp.show(&reference, run.as_ref()) {
        Err(Error::NotFound { .. }) if matches!(reference, Reference::Prompt(_)) => {
            let message = format!("{reference} names the files before a prompt, not a checkpoint");
            let hint = format!("`milepost show {reference}:PATH` prints one of these files");
            return Err(CommandError::usage(message).with_hint(hint));
        }
        shown => shown?,
    };
    context.ensure_visible(&mp, shown.entry().header.run_id())?;
    let header = &shown.entry().header;
    let mut messages = mp.conversation(header.run_id())?;
    messages.retain(|message| message.is_before(header.created_at()));
    if context.is_for_agent() {
        messages.drain(..messages.len().saturating_sub(MESSAGES_FOR_AGENTS));
    }
    let recent = mp.changes_since(&shown)?;
    // A damaged checkpoint elsewhere in the run must not keep this one from being shown.
    let query = RestorePointQuery {
        up_to: recent.is_none().then_some(header.sequence()),
        limit: RESTORE_POINTS,
        checkpoints: CHECKPOINTS_WITH_POINTS,
    };
    let restore_points = mp.restore_points(header.run_id(), query).unwrap_or_default();
    ShowDocument::new(shown, messages, recent, restore_points, mp.now())
}

/// Reads a file as it was. An agent gets it with secrets redacted.
fn show_file(reference: &str, path: &Path, context: &Context<'_>) -> Result<FileDocument> {
    let mut found = find_file(reference, path, context)?;
    if context.is_for_agent() {
        (found.bytes, found.redacted) = redact(found.bytes, context)?;
    }
    Ok(FileDocument::new(found))
}

/// Reads a file as it was, byte for byte.
pub(super) fn find_file(reference: &str, path: &Path, context: &Context<'_>) -> Result<FoundFile> {
    let mp = context.open_existing()?;
    let worktree = context.open_worktree(&mp)?;
    let files = context.visible_files(&mp, &worktree, &reference.parse()?)?;
    let candidates = worktree_path::candidates(worktree.root(), path);
    let contents = candidates.iter().map(|path| (path, worktree.content_at(&files, path)));
    let found = contents.into_iter().find(|(_, content)| *content != FileContent::Absent);
    let shown = |path: &Path| path.strip_prefix(worktree.root()).unwrap_or(path).display().to_string();
    let named = found.as_ref().map(|(path, _)| *path).or(candidates.first());
    let unavailable = |why: &str| Error::FileUnavailable {
        path: named.map_or_else(|| path.display().to_string(), |path| shown(path)),
        reference: files.name().to_owned(),
        why: why.to_owned(),
    };
    let Some((path, content)) = &found else {
        let is_inside = candidates.iter().any(|path| path.starts_with(worktree.root()));
        let why = if is_inside { "it did not exist" } else { "it is outside of the worktree" };
        return Err(unavailable(why).into());
    };
    let bytes = match files.read_path(path) {
        Err(Error::Store(StoreError::NoBlob(_))) => {
            return Err(unavailable("its content was removed from the store").into());
        }
        Err(Error::FileUnavailable { why, .. }) => return Err(unavailable(&why).into()),
        bytes => bytes?,
    };
    Ok(FoundFile {
        path: shown(path),
        reference: files.name().to_owned(),
        size: bytes.len() as u64,
        executable: matches!(content, FileContent::File { executable: true, .. }),
        symlink: matches!(content, FileContent::Symlink { .. }),
        redacted: false,
        bytes,
    })
}

/// Redacts a file for an agent, and returns whether that changed it. A binary file cannot be redacted.
fn redact(bytes: Vec<u8>, context: &Context<'_>) -> Result<(Vec<u8>, bool)> {
    if is_binary(&bytes) {
        let message = "a binary file is not shown to agents, because its secrets cannot be redacted";
        return Err(CommandError::new(ReasonCode::ConfirmationNeeded, message)
            .with_hint("the user can print it in a terminal outside the agent"));
    }
    let redacted = context.config.redact_allow.redact_text(&String::from_utf8_lossy(&bytes));
    Ok(match redacted {
        Some(text) => (text.into_bytes(), true),
        None => (bytes, false),
    })
}
