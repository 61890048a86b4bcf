//! Plumbing for Milepost's own crates: the command line, the MCP server, the testkit and the tasks of the repository.
//! Compiled only with the feature `internal`. No stability promise; not part of the public API.

/// Briefs: composing them from facts, and text that goes onto one line.
pub mod brief {
    pub use crate::brief::check::{CheckReport, Finding};
    pub use crate::brief::compose::{BriefFacts, compose};
    pub use crate::brief::merge::MergedBrief;
    pub use crate::brief::parse::{InvalidUtf8, Section};
    pub use crate::brief::section::{REQUIRED_SECTIONS, SECTION_ORDER, SectionKind};
    pub use crate::brief::single_line::{is_unsafe, one_line};
    pub use crate::brief::tokens::{HeuristicTokenizer, QUARTERS_PER_TOKEN, TokenCounter};
    pub use crate::engine::brief::{CheckpointBrief, fresh_id};
    pub use crate::front_matter::{Field, FrontMatter, Warning};
}

/// What git, the watched folders and the process say about a workspace.
pub mod capture {
    pub use crate::capture::*;
}

/// The system's clock.
pub mod clock {
    pub use crate::clock::{FrozenClock, SystemClock};
}

/// The engine's helpers for commands.
pub mod engine {
    pub use crate::engine::agent_session::{AgentSession, InterruptedRuns};
    pub use crate::engine::capture::SaveOptions;
    pub use crate::engine::compose::OUTCOME_SUMMARY;
    pub use crate::engine::current::{Caller, RunResolution};
    pub use crate::engine::doctor::{CLOCK_TOLERANCE, Diagnosis, DoctorReport, FutureCheckpoint};
    pub use crate::engine::due::Due;
    pub use crate::engine::lineage::{LineageRow, ParentLink, lineage};
    pub use crate::engine::outbox::{DeliveryReport, Outbox, PendingSave, PendingState, QueuedSave};
    pub use crate::engine::pointer::Pointer;
    pub use crate::engine::resume::{ContinueOptions, ContinuedRun, ResumeCandidate, RunAssessment};
    pub use crate::engine::run_groups::{AssessedRun, RunGroups};
    pub use crate::engine::run_options::{RunLocation, RunOptions};
    pub use crate::engine::show::source_details;
    pub use crate::engine::start::{StartOptions, StartedRun};
    pub use crate::engine::transfer::CompareReport;
    pub use crate::resume::{ClaimState, ResumeDecision, ResumePolicy, RunState};
}

/// Atomic writes and bounded reads.
pub mod fs {
    pub use crate::fs::*;
}

/// Formats of other tools.
pub mod interop {
    pub use crate::interop::detect::detect;
    pub use crate::interop::sealed::Patch;
}

/// Strict JSON and drafts of checkpoints.
pub mod model {
    pub use crate::model::checkpoint::Draft;
    pub use crate::model::id::{StoreId, random_suffix};
    pub use crate::model::json::{FromRawJson, JsonPath, RawObject};
    pub use crate::model::manifest::Manifest;
    pub use crate::model::policy::{CaptureWhen, KeepCount, PAI_PHASES, Retention, SizeLimits, StoreLimits};
    pub use crate::model::run::RunOrigin;
    pub use crate::model::schema::schema;
}

/// Owners of runs: processes and their lock files.
pub mod owner {
    pub use crate::owner::*;
}

/// Redaction of texts outside checkpoints.
pub mod redact {
    pub use crate::redact::{json, text};
}

/// Sealing and strict JSON.
pub mod seal {
    pub use crate::seal::*;
}

/// The built-in stores, their place in a project, and trust in them.
pub mod store {
    pub use crate::store::files::FilesStore;
    /// Whose a store is.
    pub mod identity {
        pub use crate::store::identity::*;
    }
    pub use crate::store::project_paths::ProjectPaths;
    pub use crate::store::sqlite::SqliteStore;
    pub use crate::store::{DEFAULT_WAIT, EVENTS_KEPT, OLDEST_SHOWN};
}

/// Timers and boundaries.
pub mod trigger {
    pub use crate::trigger::*;
}

/// What this user trusts.
pub mod trust {
    pub use crate::trust::*;
}

pub use crate::engine::import::preview_import;
pub use crate::error::error_chain;
