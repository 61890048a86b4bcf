//! Plain types: ids, checkpoint, run, marks, items, events, policies.
//! In: nothing. Out: what every other room speaks about.
//! No I/O, no clock, no decisions; the only behaviour here is reading and writing JSON without losing any of it.

mod change;
mod checkpoint;
mod event;
mod id;
mod interruption;
mod item;
pub(crate) mod json;
mod manifest;
mod marks;
mod parts;
mod policy;
mod run;
mod schema;
mod task;
mod workspace;

pub use change::{Change, ContextChange, CriterionChange, StepChange, TaskChange};
pub use checkpoint::{Body, Draft, FieldRole, Member, reserved_fields};
pub use event::{Event, EventType};
pub use id::{CheckpointId, IdError, RunId, StoreId, WriteToken};
pub use interruption::{Interruption, InterruptionKind};
pub use item::Item;
pub use json::{FromRawJson, JsonPath, RawJson, RawObject, ValidationError};
pub use manifest::Manifest;
pub use marks::Marks;
pub use parts::{
    ContextDigest, Criterion, CriterionStatus, Decision, FileRef, LogLine, Outcome, OutcomeKind,
    OutcomeResult, Phase, Pressure, RedactionSummary, ResumeHints, Source, Status, StepState, StepStatus,
    TaskStatus, TodoCompliance,
};
pub use policy::{CaptureWhen, KeepCount, PAI_PHASES, Profile, Retention, SizeLimits, StoreLimits};
pub use run::{
    CaptureHistory, Claim, ClockReading, MaintenanceState, Owner, RecentCommit, RunOrigin, RunRecord,
    Session, WorkingState,
};
pub use schema::schema;
pub use task::Task;
pub use workspace::{GitFacts, MemoryUsage, PathText, RenamedFile, WatchedFiles, Workspace};

pub(crate) use json::{closed_enum, record};
