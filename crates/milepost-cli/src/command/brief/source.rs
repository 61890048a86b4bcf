//! Reads a brief from a file, stdin or a checkpoint.

use std::path::Path;

use milepost::Reference;
use milepost::brief::Brief;
use milepost::internal::brief::CheckpointBrief;

use crate::context::Context;
use crate::error::Result;
use crate::input::read_text;
use crate::present::damage::Fallback;

/// A brief and where it comes from.
pub(super) struct Source {
    pub(super) brief: Brief,
    /// The command that shows the full brief; `None` for stdin.
    pub(super) command: Option<String>,
    /// The checkpoint that contains it; `None` for a file.
    pub(super) of: Option<CheckpointBrief>,
}

impl Source {
    /// Reads a brief. A file takes precedence over a checkpoint of the same name.
    pub(super) fn read(name: &str, context: &Context<'_>) -> Result<Self> {
        let path = Path::new(name);
        let like_a_file = name == "-" || name.contains('/') || name.ends_with(".md") || path.exists();
        if like_a_file {
            let brief = Brief::parse(read_text(path, "/brief")?);
            let quoted = if name.contains(' ') { format!("'{name}'") } else { name.to_owned() };
            let command = (name != "-").then(|| format!("milepost brief show {quoted}"));
            return Ok(Self { brief, command, of: None });
        }
        Self::of_checkpoint(name, context)
    }

    /// Reads the brief of a checkpoint, ignoring files of the same name.
    pub(super) fn of_checkpoint(name: &str, context: &Context<'_>) -> Result<Self> {
        let reference: Reference = name.parse()?;
        let mp = context.open_existing()?;
        let run = context.run_of_reference(&mp, &reference)?;
        let of = mp.brief(&reference, run.as_ref(), Some(&context.config.paths.root))?;
        let header = &of.entry.header;
        context.ensure_visible(&mp, header.run_id())?;
        let command = Some(format!("milepost brief show {}@{}", header.run_id(), header.sequence()));
        Ok(Self { brief: Brief::parse(of.markdown.as_str()), command, of: Some(of) })
    }

    /// The damaged checkpoints that were skipped.
    pub(super) fn fallback(&self) -> Fallback {
        self.of.as_ref().map_or_else(Fallback::default, |of| {
            Fallback::new(of.fell_back_from.clone(), of.entry.header.snapshot_id())
        })
    }
}
