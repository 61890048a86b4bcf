//! The body of a checkpoint, and the draft a caller gives to make one.

use jiff::Timestamp;

use super::json::{optional, required};
use super::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, FromRawJson, JsonPath, LogLine, Outcome,
    Phase, RawJson, RawObject, RedactionSummary, RunId, Source, Status, StepState, Task, ValidationError,
    Workspace,
};

/// Members of a checkpoint that only Milepost sets.
pub const RESERVED: [&str; 5] = ["snapshot_id", "created_at", "sequence", "elapsed_ms", "integrity"];

/// One checkpoint, without its seal.
#[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
#[schemars(title = "Milepost checkpoint, format 1")]
pub struct Body {
    /// How commands ended since the previous checkpoint, the newest 100.
    pub command_outcomes: Vec<Outcome>,
    /// The agent's context.
    pub context_digest: Option<ContextDigest>,
    /// When it was made.
    pub created_at: Timestamp,
    /// What has to be true in the end.
    pub criteria: Vec<Criterion>,
    /// Decisions so far.
    pub decisions: Vec<Decision>,
    /// The brief, its Markdown byte for byte.
    pub brief: Option<String>,
    /// Milliseconds since this session of the run began.
    pub elapsed_ms: u64,
    /// Files to remember, by reference.
    pub files: Vec<FileRef>,
    /// The newest lines of the run's log.
    pub log: Vec<LogLine>,
    /// The caller's own object.
    pub metadata: Option<RawJson>,
    /// How many outcomes were left out.
    pub outcomes_dropped: u64,
    /// The checkpoint this one continues.
    pub parent: Option<CheckpointId>,
    /// The phase.
    pub phase: Option<Phase>,
    /// What redaction replaced.
    pub redacted: Option<RedactionSummary>,
    /// The run.
    pub run_id: RunId,
    /// Its number within the run.
    pub sequence: u64,
    /// The session.
    pub session_id: String,
    /// Its id.
    pub snapshot_id: CheckpointId,
    /// What made it happen.
    pub source: Source,
    /// The source, then the reasons.
    pub source_details: Vec<String>,
    /// The caller's own JSON, its exact text.
    pub state: Option<RawJson>,
    /// How the work stood.
    pub status: Status,
    /// The step of the plan.
    pub step_state: Option<StepState>,
    /// What the work is about.
    pub task_summary: Option<String>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// What capture saw.
    pub workspace: Option<Workspace>,
    /// Members this version does not know, verbatim.
    #[schemars(skip)]
    pub extra: RawObject,
}

impl Body {
    /// Reads a body from its members; what is not known is kept.
    pub fn from_fields(mut fields: RawObject) -> Result<Self, ValidationError> {
        let (f, p) = (&mut fields, &JsonPath::Root);
        Ok(Self {
            brief: optional(f, "brief", p)?,
            command_outcomes: optional(f, "command_outcomes", p)?,
            context_digest: optional(f, "context_digest", p)?,
            created_at: required(f, "created_at", p)?,
            criteria: optional(f, "criteria", p)?,
            decisions: optional(f, "decisions", p)?,
            elapsed_ms: required(f, "elapsed_ms", p)?,
            files: optional(f, "files", p)?,
            log: optional(f, "log", p)?,
            metadata: optional(f, "metadata", p)?,
            outcomes_dropped: optional(f, "outcomes_dropped", p)?,
            parent: optional(f, "parent", p)?,
            phase: optional(f, "phase", p)?,
            redacted: optional(f, "redacted", p)?,
            run_id: required(f, "run_id", p)?,
            sequence: required(f, "sequence", p)?,
            session_id: required(f, "session_id", p)?,
            snapshot_id: required(f, "snapshot_id", p)?,
            source: required(f, "source", p)?,
            source_details: required(f, "source_details", p)?,
            state: optional(f, "state", p)?,
            status: required(f, "status", p)?,
            step_state: optional(f, "step_state", p)?,
            task_summary: optional(f, "task_summary", p)?,
            tasks: optional(f, "tasks", p)?,
            workspace: optional(f, "workspace", p)?,
            extra: fields,
        })
    }

    /// Writes every member, sorted by name, the unknown ones verbatim.
    pub fn members(&self) -> Result<Vec<(String, RawJson)>, ValidationError> {
        macro_rules! members {
            ($($name:ident),*) => { vec![$((stringify!($name).to_owned(), RawJson::of(&self.$name)?)),*] };
        }
        let mut all = members![
            brief,
            command_outcomes,
            context_digest,
            criteria,
            decisions,
            elapsed_ms,
            files,
            log,
            metadata,
            outcomes_dropped,
            parent,
            phase,
            redacted,
            run_id,
            sequence,
            session_id,
            snapshot_id,
            source,
            source_details,
            state,
            status,
            step_state,
            task_summary,
            tasks,
            workspace
        ];
        // Always with milliseconds, also on the full second.
        all.push(("created_at".to_owned(), RawJson::of(&format!("{:.3}", self.created_at))?));
        all.extend(self.extra.iter().map(|(key, value)| (key.to_owned(), value.clone())));
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }
}

/// What a caller gives for a checkpoint; what is not given is taken from the run as it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The run it is meant for, where the input says so.
    pub run_id: Option<RunId>,
    /// The session.
    pub session_id: Option<String>,
    /// The checkpoint this one continues.
    pub parent: Option<CheckpointId>,
    /// What made it happen; `manual` unless given.
    pub source: Option<Source>,
    /// Why, beside the source.
    pub reasons: Vec<String>,
    /// How the work stands; `in_progress` unless given.
    pub status: Option<Status>,
    /// The phase.
    pub phase: Option<Phase>,
    /// What the work is about.
    pub task_summary: Option<String>,
    /// What has to be true in the end.
    pub criteria: Option<Vec<Criterion>>,
    /// The tasks.
    pub tasks: Option<Vec<Task>>,
    /// The step of the plan.
    pub step_state: Option<StepState>,
    /// The agent's context.
    pub context_digest: Option<ContextDigest>,
    /// How commands ended, after those recorded already.
    pub command_outcomes: Vec<Outcome>,
    /// Outcomes the caller left out itself.
    pub outcomes_dropped: u64,
    /// Decisions to add.
    pub decisions: Vec<Decision>,
    /// Log lines to add.
    pub log: Vec<LogLine>,
    /// What capture saw.
    pub workspace: Option<Workspace>,
    /// Files to remember, by reference.
    pub files: Vec<FileRef>,
    /// The brief.
    pub brief: Option<String>,
    /// The caller's own JSON.
    pub state: Option<RawJson>,
    /// The caller's own object.
    pub metadata: Option<RawJson>,
    /// What redaction replaced.
    pub redacted: Option<RedactionSummary>,
    /// Members this version does not know, verbatim.
    pub extra: RawObject,
}

/// A file as an input may name it: an object, or its path alone.
struct NamedFile(FileRef);

impl FromRawJson for NamedFile {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        let file = match text.trim_start().starts_with('"') {
            true => FileRef {
                path: String::from_raw(text, path)?,
                sha256: None,
                size: None,
                extra: RawObject::default(),
            },
            false => FileRef::from_raw(text, path)?,
        };
        Ok(Self(file))
    }
}

impl Draft {
    /// Reads a draft from the members of an input document; members that only Milepost sets are refused.
    pub fn from_fields(mut fields: RawObject) -> Result<Self, ValidationError> {
        if let Some(name) = RESERVED.iter().find(|name| fields.get(name).is_some()) {
            return Err(ValidationError::at(
                &JsonPath::Root.key(name),
                "is given by Milepost and cannot be set; a name of your own is a tag",
            ));
        }
        let (f, p) = (&mut fields, &JsonPath::Root);
        let source: Option<Source> = optional(f, "source", p)?;
        let mut reasons: Vec<String> = optional(f, "source_details", p)?;
        reasons.retain(|word| !Source::WORDS.contains(&word.as_str()));
        let draft = Self {
            run_id: optional(f, "run_id", p)?,
            session_id: optional(f, "session_id", p)?,
            parent: optional(f, "parent", p)?,
            source,
            reasons,
            status: optional(f, "status", p)?,
            phase: optional(f, "phase", p)?,
            task_summary: optional(f, "task_summary", p)?,
            criteria: optional(f, "criteria", p)?,
            tasks: optional(f, "tasks", p)?,
            step_state: optional(f, "step_state", p)?,
            context_digest: optional(f, "context_digest", p)?,
            command_outcomes: optional(f, "command_outcomes", p)?,
            outcomes_dropped: optional(f, "outcomes_dropped", p)?,
            decisions: optional(f, "decisions", p)?,
            log: optional(f, "log", p)?,
            workspace: optional(f, "workspace", p)?,
            files: optional::<Vec<NamedFile>>(f, "files", p)?.into_iter().map(|file| file.0).collect(),
            brief: optional(f, "brief", p)?,
            state: f.take("state"),
            metadata: optional(f, "metadata", p)?,
            redacted: optional(f, "redacted", p)?,
            extra: RawObject::default(),
        };
        if let Some(metadata) = &draft.metadata {
            RawObject::from_raw(metadata.get(), &p.key("metadata"))?;
        }
        Ok(Self { extra: fields, ..draft })
    }

    /// Writes what was given, so that `from_fields` reads it back.
    pub fn to_fields(&self) -> Result<RawObject, ValidationError> {
        let mut fields = self.callers_fields()?;
        if let Some(workspace) = &self.workspace {
            fields.set("workspace", RawJson::of(workspace)?);
        }
        Ok(fields)
    }

    /// The same without what capture saw, which may be large and is not the caller's.
    pub fn callers_fields(&self) -> Result<RawObject, ValidationError> {
        let mut fields = RawObject::default();
        macro_rules! given {
            ($($name:ident),*) => { $(
                if let Some(value) = &self.$name {
                    fields.set(stringify!($name), RawJson::of(value)?);
                }
            )* };
        }
        macro_rules! filled {
            ($($name:ident as $member:literal),*) => { $(
                if !self.$name.is_empty() {
                    fields.set($member, RawJson::of(&self.$name)?);
                }
            )* };
        }
        given![
            run_id,
            session_id,
            parent,
            source,
            status,
            phase,
            task_summary,
            criteria,
            tasks,
            step_state,
            context_digest,
            brief,
            state,
            metadata,
            redacted
        ];
        filled![
            reasons as "source_details", command_outcomes as "command_outcomes", decisions as "decisions",
            log as "log", files as "files"
        ];
        if self.outcomes_dropped > 0 {
            fields.set("outcomes_dropped", RawJson::of(&self.outcomes_dropped)?);
        }
        for (name, value) in self.extra.iter() {
            fields.set(name, value.clone());
        }
        Ok(fields)
    }
}
