//! Checkpoint headers: the data that lists, coalescing and retention need, so that they never read a body.
//! Takes a body and returns its header and the digests that decide whether a checkpoint counts as a change.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{
    BlobId, Body, CheckpointId, FieldRole, Member, Phase, RawJson, RunId, Source, Status, ThreadPosition,
    ValidationError,
};

/// The summary of a checkpoint, available without reading its body. It contains the body's checksum and is
/// therefore bound to that body.
#[derive(Getters, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The id of the checkpoint.
    pub(crate) snapshot_id: CheckpointId,
    /// The id of the run.
    pub(crate) run_id: RunId,
    /// The number of the checkpoint within the run.
    pub(crate) sequence: u64,
    /// The position of the checkpoint in the order of all writes to the store.
    pub(crate) stamp: u64,
    /// When the checkpoint was created.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// The caller's id for the session.
    pub(crate) session_id: String,
    /// Milliseconds since the session began.
    pub(crate) elapsed_ms: u64,
    /// The parent: the previous checkpoint of the run, or the checkpoint that the run continues.
    pub(crate) parent: Option<CheckpointId>,
    /// What triggered the checkpoint.
    #[getter(copy)]
    pub(crate) source: Source,
    /// The source, followed by the reasons.
    pub(crate) source_details: Vec<String>,
    /// The status of the work.
    #[getter(copy)]
    pub(crate) status: Status,
    /// The phase of the work.
    pub(crate) phase: Option<Phase>,
    /// The first 120 characters of the task summary.
    pub(crate) summary: Option<String>,
    /// The digest of every field that counts as a change.
    pub(crate) material: String,
    /// Like `material`, but without outcomes. Compared with triggers that have no new outcomes.
    pub(crate) quiet: String,
    /// Like `quiet`, but without the workspace. Compared with triggers that have no capture. `None` if the
    /// checkpoint has no workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unseen: Option<String>,
    /// Whether the checkpoint contains a state.
    pub(crate) holds_state: bool,
    /// Whether the checkpoint contains a brief.
    pub(crate) holds_brief: bool,
    /// The id from the tool that the checkpoint was imported from, or from the front matter of its brief.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) imported_id: Option<String>,
    /// The manifests of the checkpoint's files: its own snapshot, and those before its prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) manifests: Vec<BlobId>,
    /// Number of restore points in the checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) restore_points: u64,
    /// The position in a thread of the program that saved the checkpoint, such as a LangGraph thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<ThreadPosition>,
    /// The format version of the sealed document.
    pub(crate) format_version: u64,
    /// The size of the sealed document in bytes.
    pub(crate) size: u64,
    /// The checksum of the seal.
    pub(crate) checksum: String,
}

impl Header {
    /// Returns true if the checkpoint contains a captured workspace.
    pub fn holds_workspace(&self) -> bool {
        self.unseen.is_some()
    }

    /// The number of characters of the task summary that the header contains.
    pub(crate) const SUMMARY: usize = 120;

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
            manifests: body.manifests(),
            restore_points: body.restore_points.as_ref().map_or(0, |points| points.len() as u64),
            thread: body.thread.clone(),
            format_version: super::FORMAT_VERSION,
            size: 0,
            checksum: String::new(),
        }
    }
}

/// Whether a field is left out of the header.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Returns the original id that an import stored in `metadata.imported.id`.
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

/// The digests that decide whether a checkpoint differs from the previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// Covers everything except ids, times, source, elapsed time, memory and the times of to-do checks.
    pub all: String,
    /// Like `all`, but without outcomes, which belong to the time between two checkpoints.
    pub quiet: String,
    /// Like `quiet`, but without the workspace; `None` if there is no workspace.
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
                // `workspace` sorts last among the known members, so the hash up to here covers all the
                // others. Unknown members that follow are added to both hashes below.
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
