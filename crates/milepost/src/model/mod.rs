//! Plain data types that every other module uses: ids, checkpoints, runs, marks, items, messages,
//! attachments, events and policies. The only behaviour is lossless reading and writing of JSON: unknown
//! members and exact values are preserved. This module does no I/O, reads no clock and makes no decisions.

mod attachment;
pub(crate) mod blob;
mod change;
pub(crate) mod checkpoint;
mod components;
mod event;
pub(crate) mod id;
mod interruption;
mod item;
pub(crate) mod json;
mod marks;
mod message;
pub(crate) mod policy;
pub(crate) mod project;
pub(crate) mod run;
pub(crate) mod schema;
mod task;
mod thread;
mod workspace;

pub use attachment::{AttachedValue, Attachment};
pub use blob::BlobId;
pub use change::{Change, ContextChange, CriterionChange, StepChange, TaskChange};
pub use checkpoint::Body;
#[cfg(test)]
pub(crate) use checkpoint::reserved_fields;
pub(crate) use checkpoint::{Draft, FieldRole, Member};
pub use components::{
    ContextDigest, Criterion, CriterionStatus, Decision, FileRef, LogLine, Outcome, OutcomeKind,
    OutcomeResult, Phase, Pressure, RedactionSummary, ResumeHints, Source, Status, StepState, StepStatus,
    TaskStatus, TodoCompliance,
};
pub use event::{Event, EventType};
pub use id::{CheckpointId, IdError, RunId, WriteToken};
pub use interruption::{Interruption, InterruptionKind};
pub use item::Item;
pub(crate) use json::{FromRawJson, JsonPath};
pub use json::{RawJson, RawObject, ValidationError};
pub use marks::Marks;
pub use message::Message;
pub use policy::Profile;
pub(crate) use policy::{CaptureWhen, PAI_PHASES};
pub(crate) use policy::{KeepCount, Retention, SizeLimits, StoreLimits};
pub(crate) use project::{FileChange, Manifest, ProjectFacts};
pub(crate) use run::RunOrigin;
pub(crate) use run::{
    CaptureHistory, Claim, ClockReading, MaintenanceState, RecentCommit, Session, SyncState,
};
pub use run::{Owner, RunRecord, WorkingState};
pub use task::Task;
pub use thread::{NAMESPACE_LIMIT, THREAD_ID_LIMIT, ThreadPosition};
pub use workspace::{
    FileSnapshot, GitFacts, MemoryUsage, PathText, RenamedFile, RestorePoint, WatchedFiles, Workspace,
};

pub(crate) use json::{closed_enum, record};
