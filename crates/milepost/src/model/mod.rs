//! Plain types: ids, checkpoint, run, marks, items, events, policies.
//! In: nothing. Out: what every other room speaks about.
//! No I/O, no clock, no decisions; the only behaviour here is reading and writing JSON without losing any of it.

mod base64;
mod change;
mod checkpoint;
mod event;
mod facts;
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

pub use change::{Change, ContextChange, CriterionChange, StepChange, TaskChange};
pub use checkpoint::{Body, Draft, RESERVED};
pub use event::{Event, EventType};
pub use facts::{GitFacts, Memory, PathText, Renamed, Watched, Workspace};
pub use id::{CheckpointId, IdError, RunId, StoreId, Token};
pub use interruption::{Class, Interruption};
pub use item::Item;
pub use json::{Fields, FromRaw, Invalid, Path, Raw};
pub use manifest::Manifest;
pub use marks::Marks;
pub use parts::{
    ContextDigest, Criterion, CriterionStatus, Decision, FileRef, LogLine, Outcome, OutcomeKind,
    OutcomeResult, Phase, Pressure, Redacted, ResumeHints, Source, Status, StepState, StepStatus, TaskStatus,
    TodoCompliance,
};
pub use policy::{CaptureWhen, House, Keep, Limits, PAI_PHASES, Profile, Retention};
pub use run::{Captures, Claim, Moment, Owner, Recent, RunOrigin, RunRecord, Session, Upkept, Working};
pub use schema::schema;
pub use task::Task;

pub(crate) use json::{closed_enum, record};
