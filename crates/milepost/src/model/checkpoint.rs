//! The fields of a checkpoint. `checkpoint_fields!` lists each field once: its name in the document, its
//! type, how it is parsed, its role in comparisons, and how a caller sets it. The macro generates `Body`, the
//! stored document without its seal, and `Draft`, the fields that a caller can set.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::json::{optional, required};
use super::{
    BlobId, CheckpointId, ContextDigest, Criterion, Decision, FileRef, FromRawJson, JsonPath, LogLine,
    Outcome, Phase, RawJson, RawObject, RedactionSummary, RestorePoint, RunId, Source, Status, StepState,
    Task, ThreadPosition, ValidationError, Workspace,
};

/// The role of a field when two checkpoints are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldRole {
    /// Identifies the checkpoint and states when and why it was created. Never counts as a change.
    Identity,
    /// Belongs to the time between two checkpoints. Counts as a change only if a trigger has new outcomes.
    Outcome,
    /// Part of the work. Counts as a change; `diff` compares it as JSON.
    Work,
    /// Part of the work. Counts as a change; `diff` compares it with field-specific rules.
    Text,
    /// The captured workspace. Counts as a change only if a trigger captured it.
    Workspace,
}

/// One member of a checkpoint's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub name: Cow<'static, str>,
    pub role: FieldRole,
    pub value: RawJson,
}

impl Member {
    fn of(name: &'static str, role: FieldRole, value: &impl Serialize) -> Result<Self, ValidationError> {
        Ok(Self { name: Cow::Borrowed(name), role, value: RawJson::of(value)? })
    }
}

/// Declares `Body` and `Draft` from one list of fields. Each row has the form
///
/// ```text
/// /// What the field contains.
/// name: Type [presence, Role] => /// What a caller sets. draft_name: DraftType [reader];
/// ```
///
/// `presence` is `required`, `optional` (written as null if absent) or `omittable` (omitted if absent). Every
/// field that is added after the first release of a format must be `omittable`. Only Milepost sets a field
/// without `=>`.
macro_rules! checkpoint_fields {
    (@reader required) => { required };
    (@reader optional) => { optional };
    (@reader omittable) => { optional };
    ($(
        $(#[$meta:meta])*
        $name:ident: $ty:ty [$presence:ident, $role:ident]
        $( => $(#[$draft_meta:meta])* $draft:ident: $draft_ty:ty [$read:ident] )? ;
    )*) => {
        /// The content of one checkpoint, without its seal.
        #[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
        #[schemars(title = "Milepost checkpoint, format 1")]
        pub struct Body {
            $( $(#[$meta])* pub $name: $ty, )*
            /// Members that this version does not recognise, verbatim.
            #[schemars(skip)]
            pub extra: RawObject,
        }

        /// The fields of a checkpoint that a caller can set. Unset fields that describe the work, such as
        /// tasks and phase, are taken from the run's working state.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Draft {
            $($( $(#[$draft_meta])* pub $draft: $draft_ty, )?)*
            /// Members that this version does not recognise, verbatim.
            pub extra: RawObject,
        }

        /// Every field and its name in a draft; the second list is empty if only Milepost sets the field.
        const FIELDS: &[(&str, &[&str])] = &[$( (stringify!($name), &[$(stringify!($draft))?]) ),*];

        impl Body {
            /// Parses a body from the members of a document. Unknown members are preserved.
            pub fn from_object(mut fields: RawObject) -> Result<Self, ValidationError> {
                Ok(Self {
                    $( $name: checkpoint_fields!(@reader $presence)(&mut fields, stringify!($name), &JsonPath::Root)?, )*
                    extra: fields,
                })
            }

            /// Returns the known members in declaration order. Absent optional members are null; absent
            /// omittable members are omitted.
            fn known_members(&self) -> Result<Vec<Member>, ValidationError> {
                let mut all = Vec::with_capacity(FIELDS.len() + 4);
                $(
                    let member = Member::of(stringify!($name), FieldRole::$role, &self.$name)?;
                    if stringify!($presence) != "omittable" || !member.value.is_null() {
                        all.push(member);
                    }
                )*
                Ok(all)
            }
        }

        impl Draft {
            fn read(fields: &mut RawObject) -> Result<Self, ValidationError> {
                Ok(Self {
                    $($( $draft: $read(fields, stringify!($name), &JsonPath::Root)?, )?)*
                    extra: RawObject::default(),
                })
            }

            fn write(&self, with_workspace: bool) -> Result<RawObject, ValidationError> {
                let mut fields = RawObject::default();
                $($(
                    if (with_workspace || FieldRole::$role != FieldRole::Workspace) && self.$draft != <$draft_ty>::default() {
                        fields.set(stringify!($name), RawJson::of(&self.$draft)?);
                    }
                )?)*
                fields.set_all(&self.extra);
                Ok(fields)
            }
        }
    };
}

checkpoint_fields! {
    /// The brief: Markdown, byte for byte.
    brief: Option<String> [optional, Text]
        => /// The brief.
           brief: Option<String> [optional];
    /// The outcomes of commands since the previous checkpoint; at most the newest 100.
    command_outcomes: Vec<Outcome> [optional, Outcome]
        => /// Outcomes of commands, appended to those already recorded.
           command_outcomes: Vec<Outcome> [optional];
    /// The state of the agent's context.
    context_digest: Option<ContextDigest> [optional, Work]
        => /// The state of the agent's context.
           context_digest: Option<ContextDigest> [optional];
    /// When the checkpoint was created.
    created_at: Timestamp [required, Identity];
    /// The success criteria.
    criteria: Vec<Criterion> [optional, Work]
        => /// The success criteria; replaces the recorded list.
           criteria: Option<Vec<Criterion>> [optional];
    /// All decisions of the run so far.
    decisions: Vec<Decision> [optional, Work]
        => /// Decisions to add.
           decisions: Vec<Decision> [optional];
    /// Milliseconds since the current session of the run began.
    elapsed_ms: u64 [required, Identity];
    /// References to files that belong to the work.
    files: Vec<FileRef> [optional, Work]
        => /// References to files that belong to the work.
           files: Vec<FileRef> [file_refs];
    /// The newest lines of the run's log.
    log: Vec<LogLine> [optional, Text]
        => /// Log lines to add.
           log: Vec<LogLine> [optional];
    /// The caller's own JSON object.
    metadata: Option<RawJson> [optional, Work]
        => /// The caller's own JSON object.
           metadata: Option<RawJson> [object];
    /// The number of outcomes that were dropped.
    outcomes_dropped: u64 [optional, Outcome]
        => /// The number of outcomes that the caller dropped itself.
           outcomes_dropped: u64 [optional];
    /// The parent: the previous checkpoint of the run, or the checkpoint that the run continues.
    parent: Option<CheckpointId> [optional, Identity]
        => /// The parent; by default the previous checkpoint of the run.
           parent: Option<CheckpointId> [optional];
    /// The current phase of the work.
    phase: Option<Phase> [optional, Work]
        => /// The current phase of the work.
           phase: Option<Phase> [optional];
    /// A summary of the values that redaction replaced.
    redacted: Option<RedactionSummary> [optional, Text]
        => /// A summary of the values that the caller's own redaction replaced.
           redacted: Option<RedactionSummary> [optional];
    /// The files before each prompt since the previous checkpoint.
    restore_points: Option<Vec<RestorePoint>> [omittable, Identity];
    /// The id of the run.
    run_id: RunId [required, Identity]
        => /// The run that the draft is for, if the input names one.
           run_id: Option<RunId> [optional];
    /// The number of the checkpoint within the run, starting at 1.
    sequence: u64 [required, Identity];
    /// The caller's id for the session; `unknown` if it has none.
    session_id: String [required, Identity]
        => /// The caller's id for the session.
           session_id: Option<String> [optional];
    /// The id of the checkpoint.
    snapshot_id: CheckpointId [required, Identity];
    /// What triggered the checkpoint.
    source: Source [required, Identity]
        => /// What triggered the checkpoint; `manual` by default.
           source: Option<Source> [optional];
    /// The source, followed by the reasons.
    source_details: Vec<String> [required, Identity]
        => /// Reasons, in addition to the source.
           reasons: Vec<String> [reasons];
    /// The caller's state: any JSON value, as exact text.
    state: Option<RawJson> [optional, Work]
        => /// The caller's state: any JSON value, including `null`.
           state: Option<RawJson> [verbatim];
    /// The status of the work.
    status: Status [required, Work]
        => /// The status of the work; `in_progress` by default.
           status: Option<Status> [optional];
    /// The current step of the plan.
    step_state: Option<StepState> [optional, Work]
        => /// The current step of the plan.
           step_state: Option<StepState> [optional];
    /// A summary of the work.
    task_summary: Option<String> [optional, Work]
        => /// A summary of the work.
           task_summary: Option<String> [optional];
    /// The tasks of the plan.
    tasks: Vec<Task> [optional, Work]
        => /// The tasks of the plan; replaces the recorded list.
           tasks: Option<Vec<Task>> [optional];
    /// The position in a thread of the program that saved the checkpoint, such as a LangGraph thread.
    thread: Option<ThreadPosition> [omittable, Work];
    /// The values of the checkpoint of a thread: small ones, and the blobs of the others.
    values: Option<RawJson> [omittable, Identity];
    /// The captured state of the workspace.
    workspace: Option<Workspace> [optional, Workspace]
        => /// The captured state of the workspace.
           workspace: Option<Workspace> [optional];
}

impl Body {
    /// Creates a body with only the members that every checkpoint has.
    pub fn new(run: &RunId, id: &CheckpointId, created_at: Timestamp) -> Result<Self, ValidationError> {
        let mut fields = RawObject::default();
        fields.set("run_id", RawJson::of(run)?);
        fields.set("snapshot_id", RawJson::of(id)?);
        fields.set("created_at", RawJson::of(&created_at)?);
        fields.set("elapsed_ms", RawJson::of(&0)?);
        fields.set("sequence", RawJson::of(&0)?);
        fields.set("session_id", RawJson::of("unknown")?);
        fields.set("source", RawJson::of(&Source::Manual)?);
        fields.set("source_details", RawJson::of(&[Source::Manual])?);
        fields.set("status", RawJson::of(&Status::InProgress)?);
        Self::from_object(fields)
    }

    /// Returns the manifests that the checkpoint refers to: its own snapshot, and those before its prompts.
    pub(crate) fn manifests(&self) -> Vec<BlobId> {
        let own = self.workspace.as_ref().and_then(|workspace| workspace.snapshot.as_ref());
        let points = self.restore_points.iter().flatten().map(|point| point.manifest);
        let mut all: Vec<_> = own.map(|own| own.manifest).into_iter().chain(points).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|id| seen.insert(*id));
        all
    }

    /// Returns all members sorted by name, unknown ones verbatim.
    pub(crate) fn members(&self) -> Result<Vec<Member>, ValidationError> {
        let mut all = self.known_members()?;
        for member in all.iter_mut().filter(|member| member.name == "created_at") {
            // Always write milliseconds, even if they are zero.
            member.value = RawJson::of(&format!("{:.3}", self.created_at))?;
        }
        all.extend(self.extra.iter().map(|(name, value)| Member {
            name: Cow::Owned(name.to_owned()),
            role: FieldRole::Work,
            value: value.clone(),
        }));
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Returns the names of the members that only Milepost sets.
pub(crate) fn reserved_fields() -> impl Iterator<Item = &'static str> {
    let reserved = FIELDS.iter().filter(|(_, draft)| draft.is_empty()).map(|(name, _)| *name);
    reserved.chain(["integrity"])
}

impl Draft {
    /// Parses a draft from an input document. Fails if it contains a member that only Milepost sets.
    pub fn from_object(mut fields: RawObject) -> Result<Self, ValidationError> {
        if let Some(name) = reserved_fields().find(|name| fields.get(name).is_some()) {
            return Err(ValidationError::at(
                &JsonPath::Root.key(name),
                "is set by Milepost and cannot be provided; use a tag to name a checkpoint",
            ));
        }
        let draft = Self::read(&mut fields)?;
        Ok(Self { extra: fields, ..draft })
    }

    /// Serialises the fields that are set. `from_object` parses the result back.
    pub fn to_object(&self) -> Result<RawObject, ValidationError> {
        self.write(true)
    }

    /// Like [`Self::to_object`], but without the captured workspace, which can be large.
    pub fn caller_fields(&self) -> Result<RawObject, ValidationError> {
        self.write(false)
    }
}

/// Parses reasons and drops those that are names of sources.
fn reasons(fields: &mut RawObject, name: &str, path: &JsonPath<'_>) -> Result<Vec<String>, ValidationError> {
    let mut reasons: Vec<String> = optional(fields, name, path)?;
    reasons.retain(|text| !Source::NAMES.contains(&text.as_str()));
    Ok(reasons)
}

/// Takes any JSON value, including `null`.
fn verbatim(
    fields: &mut RawObject,
    name: &str,
    _: &JsonPath<'_>,
) -> Result<Option<RawJson>, ValidationError> {
    Ok(fields.take(name))
}

/// Parses an object and keeps its text.
fn object(
    fields: &mut RawObject,
    name: &str,
    path: &JsonPath<'_>,
) -> Result<Option<RawJson>, ValidationError> {
    let raw: Option<RawJson> = optional(fields, name, path)?;
    if let Some(raw) = &raw {
        RawObject::from_raw(raw.get(), &path.key(name))?;
    }
    Ok(raw)
}

/// Parses file references. Each is an object, or a string with just the path.
fn file_refs(
    fields: &mut RawObject,
    name: &str,
    path: &JsonPath<'_>,
) -> Result<Vec<FileRef>, ValidationError> {
    struct PathOrObject(FileRef);
    impl FromRawJson for PathOrObject {
        fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
            if !text.trim_start().starts_with('"') {
                return FileRef::from_raw(text, path).map(Self);
            }
            let path = String::from_raw(text, path)?;
            Ok(Self(FileRef { blob: None, path, sha256: None, size: None, extra: RawObject::default() }))
        }
    }
    Ok(optional::<Vec<PathOrObject>>(fields, name, path)?.into_iter().map(|file| file.0).collect())
}
