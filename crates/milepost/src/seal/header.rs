//! The header of a checkpoint: what lists, coalescing and retention need, so that they never read a body. In: a body. Out:
//! its header, and digests of what counts as a change.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{
    Body, CheckpointId, FieldRole, Member, Phase, RawJson, RunId, Source, Status, ValidationError,
};

/// What is known about a checkpoint without its body. It names the body's checksum and so is bound to it.
#[derive(Getters, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Its id.
    pub(crate) snapshot_id: CheckpointId,
    /// The run.
    pub(crate) run_id: RunId,
    /// Its number within the run.
    pub(crate) sequence: u64,
    /// Its place among all writes of the store.
    pub(crate) stamp: u64,
    /// When it was made.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// The session.
    pub(crate) session_id: String,
    /// Milliseconds since that session began.
    pub(crate) elapsed_ms: u64,
    /// The checkpoint it continues.
    pub(crate) parent: Option<CheckpointId>,
    /// What made it happen.
    #[getter(copy)]
    pub(crate) source: Source,
    /// The source, then the reasons.
    pub(crate) source_details: Vec<String>,
    /// How the work stood.
    #[getter(copy)]
    pub(crate) status: Status,
    /// The phase.
    pub(crate) phase: Option<Phase>,
    /// The start of the task summary.
    pub(crate) summary: Option<String>,
    /// Digest of everything that counts as a change.
    pub(crate) material: String,
    /// The same without outcomes: what a trigger that brings no new outcome is compared with.
    pub(crate) quiet: String,
    /// As `quiet` without the workspace, where there is one: what a trigger that did not look is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unseen: Option<String>,
    /// Whether a state was given.
    pub(crate) holds_state: bool,
    /// Whether a brief was given.
    pub(crate) holds_brief: bool,
    /// The id it had where it was imported from, or that its brief gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) imported_id: Option<String>,
    /// The format the document was written in.
    pub(crate) format_version: u64,
    /// Bytes of the sealed document.
    pub(crate) size: u64,
    /// The seal's checksum.
    pub(crate) checksum: String,
}

impl Header {
    /// Whether it holds what capture saw.
    pub fn holds_workspace(&self) -> bool {
        self.unseen.is_some()
    }

    /// Characters of the task summary that the header repeats.
    const SUMMARY: usize = 120;

    pub(super) fn of(body: &Body, material: &Material, state_given: bool) -> Self {
        Self {
            snapshot_id: body.snapshot_id.clone(),
            run_id: body.run_id.clone(),
            sequence: body.sequence,
            stamp: 0,
            created_at: body.created_at,
            session_id: body.session_id.clone(),
            elapsed_ms: body.elapsed_ms,
            parent: body.parent.clone(),
            source: body.source,
            source_details: body.source_details.clone(),
            status: body.status,
            phase: body.phase.clone(),
            summary: body.task_summary.as_ref().map(|text| text.chars().take(Self::SUMMARY).collect()),
            material: material.all.clone(),
            quiet: material.quiet.clone(),
            unseen: material.unseen.clone(),
            holds_state: state_given,
            holds_brief: body.brief.is_some(),
            imported_id: imported_id(body.metadata.as_ref())
                .or_else(|| body.brief.as_deref().and_then(crate::front_matter::brief_id)),
            format_version: super::FORMAT_VERSION,
            size: 0,
            checksum: String::new(),
        }
    }
}

/// The original id that an import left in `metadata.imported.id`.
fn imported_id(metadata: Option<&RawJson>) -> Option<String> {
    #[derive(Deserialize)]
    struct Metadata {
        imported: Option<Imported>,
    }
    #[derive(Deserialize)]
    struct Imported {
        id: Option<String>,
    }
    let metadata = metadata.filter(|raw| raw.get().contains("\"imported\""))?;
    serde_json::from_str::<Metadata>(metadata.get()).ok()?.imported?.id
}

/// Digests of what counts as a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// Of everything but ids, times, source, elapsed, memory and check times.
    pub all: String,
    /// Of that without outcomes, which belong to the time between two checkpoints.
    pub quiet: String,
    /// Of that without the workspace too, where there is one.
    pub unseen: Option<String>,
}

impl Material {
    pub(super) fn of(body: &Body, members: &[Member]) -> Result<Self, ValidationError> {
        let mut quiet = blake3::Hasher::new();
        let mut unseen: Option<blake3::Hasher> = None;
        let mut outcomes = blake3::Hasher::new();
        let add = |hasher: &mut blake3::Hasher, name: &str, text: &str| {
            for piece in [name, text] {
                hasher.update(&(piece.len() as u64).to_le_bytes());
                hasher.update(piece.as_bytes());
            }
        };
        for Member { name, role, value } in members {
            match role {
                FieldRole::Identity => {}
                FieldRole::Outcome => add(&mut outcomes, name, value.get()),
                FieldRole::Work if name == "step_state" => {
                    let mut step = body.step_state.clone();
                    if let Some(step) = &mut step {
                        step.todo_compliance.checked_at = None;
                    }
                    add(&mut quiet, name, RawJson::of(&step)?.get());
                }
                // It is the last member that this version knows; what it does not know follows in either case.
                FieldRole::Workspace if body.workspace.is_some() => {
                    let mut workspace = body.workspace.clone();
                    if let Some(workspace) = &mut workspace {
                        workspace.memory = None;
                    }
                    let mut without = quiet.clone();
                    add(&mut without, name, "null");
                    unseen = Some(without);
                    add(&mut quiet, name, RawJson::of(&workspace)?.get());
                }
                FieldRole::Work | FieldRole::Text | FieldRole::Workspace => {
                    add(&mut quiet, name, value.get());
                    if let Some(unseen) = &mut unseen {
                        add(unseen, name, value.get());
                    }
                }
            }
        }
        let quiet = quiet.finalize();
        outcomes.update(quiet.as_bytes());
        let short = |hash: blake3::Hash| hash.to_hex()[..32].to_owned();
        let unseen = unseen.map(|hasher| short(hasher.finalize()));
        Ok(Self { all: short(outcomes.finalize()), quiet: short(quiet), unseen })
    }
}
