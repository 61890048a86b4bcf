//! Re-exports for Milepost's own crates: the command line, the MCP server, the testkit and xtask. Compiled
//! only with the feature `internal`. This module is not part of the public API and can change in any release.

/// Composes, parses, checks and merges briefs, and escapes text to fit on one line.
pub mod brief {
    pub use crate::brief::check::{CheckReport, Finding};
    pub use crate::brief::compose::{BriefFacts, BriefLimit, compose};
    pub use crate::brief::merge::MergedBrief;
    pub use crate::brief::parse::{InvalidUtf8, Section};
    pub use crate::brief::section::{REQUIRED_SECTIONS, SECTION_ORDER, SectionKind};
    pub use crate::brief::single_line::{is_unsafe, one_line};
    pub use crate::brief::tokens::{HeuristicTokenizer, QUARTERS_PER_TOKEN, TokenCounter};
    pub use crate::engine::brief::{CheckpointBrief, fresh_id};
    pub use crate::front_matter::{Field, FrontMatter, Warning};
}

/// Captures the state of a workspace: git, the watched folders and process memory.
pub mod capture {
    pub use crate::capture::*;
}

/// The system clock and a frozen clock for tests.
pub mod clock {
    pub use crate::clock::{FrozenClock, SystemClock};
}

/// Lines of patches.
pub mod diff {
    pub use crate::diff::patch::{compare_contents, is_binary};
    pub use crate::diff::unified::{PatchLine, PatchLineRole};
}

/// Engine types that the commands use.
pub mod engine {
    pub use crate::engine::agent_session::{AgentSession, InterruptedRuns};
    pub use crate::engine::capture::SaveOptions;
    pub use crate::engine::compose::OUTCOME_SUMMARY;
    pub use crate::engine::current::{Caller, RunResolution};
    pub use crate::engine::doctor::{CLOCK_TOLERANCE, Diagnosis, DoctorReport, FutureCheckpoint};
    pub use crate::engine::due::Due;
    pub use crate::engine::files::RestorePointQuery;
    pub use crate::engine::lineage::{LineageRow, ParentLink, lineage};
    pub use crate::engine::outbox::{DeliveryReport, Outbox, PendingSave, PendingState, QueuedSave};
    pub use crate::engine::pointer::{Pointer, PointerUpdate};
    pub use crate::engine::resume::{ContinueOptions, ContinuedRun, ResumeCandidate, RunAssessment};
    pub use crate::engine::run_groups::{AssessedRun, RunGroups};
    pub use crate::engine::run_options::{RunLocation, RunOptions};
    pub use crate::engine::show::source_details;
    pub use crate::engine::since::{PendingCounts, RecentChanges};
    pub use crate::engine::start::{IfCompleted, StartOptions, StartedRun};
    pub use crate::engine::transfer::CompareReport;
    pub use crate::resume::{ClaimState, ResumeDecision, ResumePolicy, RunState};
}

/// Atomic file writes and size-limited file reads.
pub mod fs {
    pub use crate::fs::*;
}

/// Parsers of what git prints.
pub mod git {
    pub use crate::capture::{read_git_changes, read_git_status};
}

/// Format detection, and the patch that a bundle can contain.
pub mod interop {
    pub use crate::interop::detect::detect;
    pub use crate::interop::sealed::Patch;
}

/// Checkpoint drafts, ids, raw JSON, policies and the JSON Schema.
pub mod model {
    pub use crate::model::checkpoint::Draft;
    pub use crate::model::id::{StoreId, random_suffix};
    pub use crate::model::json::{FromRawJson, JsonPath, RawObject};
    pub use crate::model::policy::{CaptureWhen, KeepCount, PAI_PHASES, Retention, SizeLimits, StoreLimits};
    pub use crate::model::project::{FileChange, Manifest, ProjectFacts};
    pub use crate::model::run::RunOrigin;
    pub use crate::model::schema::schema;
}

/// Run owners: processes and their lock files.
pub mod owner {
    pub use crate::owner::*;
}

/// Redaction of text and JSON that are not part of a checkpoint.
pub mod redact {
    pub use crate::redact::{json, text, without_cut_word};
}

/// Ages, durations, sizes and counts for display.
pub mod humanize {
    pub use crate::humanize::*;
}

/// File changes that are applied to a worktree without losing a byte, and undone.
pub mod restore {
    pub use crate::restore::*;
}

/// Sealing and verification of checkpoints, and strict JSON.
pub mod seal {
    pub use crate::seal::*;
}

/// The built-in stores, their location in a project, and their identity.
pub mod store {
    pub use crate::store::files::FilesStore;
    /// Checks whether a store is trusted, new or foreign.
    pub mod identity {
        pub use crate::store::identity::*;
    }
    /// Compresses blobs and verifies them against their ids.
    pub mod blob_codec {
        pub use crate::store::blob_codec::{compress_all, damage, identify, restore};
    }
    /// Checksums of stored values.
    pub mod check {
        pub use crate::store::check::{checksum, compare, parse, prove};
    }
    /// Documents packed whole or as deltas.
    pub mod frame {
        pub use crate::store::frame::{MOST_DEPENDANTS, SMALL, pack, unpack, whole};
    }
    /// Ids of projects that are the same in every clone.
    pub mod project_id {
        pub use crate::store::project_id::*;
    }
    pub use crate::store::project_paths::ProjectPaths;
    pub use crate::store::query::arrange;
    pub use crate::store::sqlite::SqliteStore;
    pub use crate::store::{DEFAULT_WAIT, DETAILS_WERE_SHOWN, EVENTS_KEPT, OLDEST_SHOWN};
}

/// Snapshots of files: how they are taken, and what they contain.
pub mod snapshot {
    pub use crate::snapshot::{FileContent, Manifest, ManifestEntry, restore_folder};
}

/// The tables of threads' values.
pub mod threads {
    pub use crate::threads::SplitValue;
    pub use crate::threads::table::{
        EncodedValues, FindEarlier, ReadChunk, TableError, ValueReader, chunks_of, encode, small_values,
    };
}

/// Timers, due times and the changes that trigger a checkpoint.
pub mod trigger {
    pub use crate::trigger::*;
}

/// The user's key and the records of the stores that the user created or trusted.
pub mod trust {
    pub use crate::trust::*;
}

pub use crate::engine::import::preview_import;
pub use crate::error::error_chain;
