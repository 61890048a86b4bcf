//! The fields of a checkpoint. `checkpoint_fields!` lists each of them once: its name in the document, its type, how it
//! is read, what it counts as in comparisons, and how a caller gives it.
//! Out: `Body`, the stored document without its seal, and `Draft`, the part of it that a caller gives.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::json::{optional, required};
use super::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, FromRawJson, JsonPath, LogLine, Outcome,
    Phase, RawJson, RawObject, RedactionSummary, RunId, Source, Status, StepState, Task, ValidationError,
    Workspace,
};

/// What a field counts as when two checkpoints are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldRole {
    /// Says which checkpoint it is, when and why it was made: never a change.
    Identity,
    /// Belongs to the time between two checkpoints: a change, which a trigger without outcomes does not bring.
    Outcome,
    /// Part of the work: a change, compared as JSON by `diff`.
    Work,
    /// Part of the work: a change, compared by `diff` with rules of its own.
    Text,
    /// What capture saw: a change, which a trigger without a capture does not bring.
    Workspace,
}

/// One member of a checkpoint's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it counts as in comparisons.
    pub role: FieldRole,
    /// Its value.
    pub value: RawJson,
}

impl Member {
    fn of(name: &'static str, role: FieldRole, value: &impl Serialize) -> Result<Self, ValidationError> {
        Ok(Self { name: Cow::Borrowed(name), role, value: RawJson::of(value)? })
    }
}

/// Makes `Body` and `Draft` from one list of fields. A row is
///
/// ```text
/// /// What the field holds.
/// name: Type [presence, Role] => /// What a caller gives. draft_name: DraftType [reader];
/// ```
///
/// `presence` is `required`, `optional` (written as null where absent) or `omittable` (left out where absent, as every
/// field has to be that was added after the first release of a format). A row without `=>` is set by Milepost alone.
macro_rules! checkpoint_fields {
    (@reader required) => { required };
    (@reader optional) => { optional };
    (@reader omittable) => { optional };
    ($(
        $(#[$meta:meta])*
        $name:ident: $ty:ty [$presence:ident, $role:ident]
        $( => $(#[$draft_meta:meta])* $draft:ident: $draft_ty:ty [$read:ident] )? ;
    )*) => {
        /// One checkpoint, without its seal.
        #[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
        #[schemars(title = "Milepost checkpoint, format 1")]
        pub struct Body {
            $( $(#[$meta])* pub $name: $ty, )*
            /// Members this version does not know, verbatim.
            #[schemars(skip)]
            pub extra: RawObject,
        }

        /// What a caller gives for a checkpoint; what is not given is taken from the run as it stands.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Draft {
            $($( $(#[$draft_meta])* pub $draft: $draft_ty, )?)*
            /// Members this version does not know, verbatim.
            pub extra: RawObject,
        }

        /// Every field, and what a draft calls it; nothing where only Milepost sets it.
        const FIELDS: &[(&str, &[&str])] = &[$( (stringify!($name), &[$(stringify!($draft))?]) ),*];

        impl Body {
            /// Reads a body from its members; unknown ones are kept.
            pub fn from_object(mut fields: RawObject) -> Result<Self, ValidationError> {
                Ok(Self {
                    $( $name: checkpoint_fields!(@reader $presence)(&mut fields, stringify!($name), &JsonPath::Root)?, )*
                    extra: fields,
                })
            }

            /// The known members in the order of the list, absent ones as null.
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
    /// The brief, its Markdown byte for byte.
    brief: Option<String> [optional, Text]
        => /// The brief.
           brief: Option<String> [optional];
    /// How commands ended since the previous checkpoint, the newest 100.
    command_outcomes: Vec<Outcome> [optional, Outcome]
        => /// How commands ended, after those recorded already.
           command_outcomes: Vec<Outcome> [optional];
    /// The agent's context.
    context_digest: Option<ContextDigest> [optional, Work]
        => /// The agent's context.
           context_digest: Option<ContextDigest> [optional];
    /// When it was made.
    created_at: Timestamp [required, Identity];
    /// What has to be true in the end.
    criteria: Vec<Criterion> [optional, Work]
        => /// What has to be true in the end.
           criteria: Option<Vec<Criterion>> [optional];
    /// Decisions so far.
    decisions: Vec<Decision> [optional, Work]
        => /// Decisions to add.
           decisions: Vec<Decision> [optional];
    /// Milliseconds since this session of the run began.
    elapsed_ms: u64 [required, Identity];
    /// Files to remember, by reference.
    files: Vec<FileRef> [optional, Work]
        => /// Files to remember, by reference.
           files: Vec<FileRef> [file_refs];
    /// The newest lines of the run's log.
    log: Vec<LogLine> [optional, Text]
        => /// Log lines to add.
           log: Vec<LogLine> [optional];
    /// The caller's own object.
    metadata: Option<RawJson> [optional, Work]
        => /// The caller's own object.
           metadata: Option<RawJson> [object];
    /// How many outcomes were left out.
    outcomes_dropped: u64 [optional, Outcome]
        => /// Outcomes the caller left out itself.
           outcomes_dropped: u64 [optional];
    /// The checkpoint this one continues.
    parent: Option<CheckpointId> [optional, Identity]
        => /// The checkpoint this one continues.
           parent: Option<CheckpointId> [optional];
    /// The phase.
    phase: Option<Phase> [optional, Work]
        => /// The phase.
           phase: Option<Phase> [optional];
    /// What redaction replaced.
    redacted: Option<RedactionSummary> [optional, Text]
        => /// What the caller's own redaction replaced.
           redacted: Option<RedactionSummary> [optional];
    /// The run.
    run_id: RunId [required, Identity]
        => /// The run it is meant for, where the input says so.
           run_id: Option<RunId> [optional];
    /// Its number within the run.
    sequence: u64 [required, Identity];
    /// The session.
    session_id: String [required, Identity]
        => /// The session.
           session_id: Option<String> [optional];
    /// Its id.
    snapshot_id: CheckpointId [required, Identity];
    /// What made it happen.
    source: Source [required, Identity]
        => /// What made it happen; `manual` unless given.
           source: Option<Source> [optional];
    /// The source, then the reasons.
    source_details: Vec<String> [required, Identity]
        => /// Why, beside the source.
           reasons: Vec<String> [reasons];
    /// The caller's own JSON, its exact text.
    state: Option<RawJson> [optional, Work]
        => /// The caller's own JSON; `null` is a state too.
           state: Option<RawJson> [verbatim];
    /// How the work stood.
    status: Status [required, Work]
        => /// How the work stands; `in_progress` unless given.
           status: Option<Status> [optional];
    /// The step of the plan.
    step_state: Option<StepState> [optional, Work]
        => /// The step of the plan.
           step_state: Option<StepState> [optional];
    /// What the work is about.
    task_summary: Option<String> [optional, Work]
        => /// What the work is about.
           task_summary: Option<String> [optional];
    /// The tasks.
    tasks: Vec<Task> [optional, Work]
        => /// The tasks.
           tasks: Option<Vec<Task>> [optional];
    /// What capture saw.
    workspace: Option<Workspace> [optional, Workspace]
        => /// What capture saw.
           workspace: Option<Workspace> [optional];
}

impl Body {
    /// A body with nothing but what every checkpoint has.
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

    /// Writes every member, sorted by name, the unknown ones verbatim.
    pub(crate) fn members(&self) -> Result<Vec<Member>, ValidationError> {
        let mut all = self.known_members()?;
        for member in all.iter_mut().filter(|member| member.name == "created_at") {
            // Always with milliseconds, also on the full second.
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

/// Names of the members that only Milepost sets.
pub(crate) fn reserved_fields() -> impl Iterator<Item = &'static str> {
    let reserved = FIELDS.iter().filter(|(_, draft)| draft.is_empty()).map(|(name, _)| *name);
    reserved.chain(["integrity"])
}

impl Draft {
    /// Reads a draft from the members of an input document; members that only Milepost sets are refused.
    pub fn from_object(mut fields: RawObject) -> Result<Self, ValidationError> {
        if let Some(name) = reserved_fields().find(|name| fields.get(name).is_some()) {
            return Err(ValidationError::at(
                &JsonPath::Root.key(name),
                "is given by Milepost and cannot be set; a name of your own is a tag",
            ));
        }
        let draft = Self::read(&mut fields)?;
        Ok(Self { extra: fields, ..draft })
    }

    /// Writes the given fields, so that `from_object` reads them back.
    pub fn to_object(&self) -> Result<RawObject, ValidationError> {
        self.write(true)
    }

    /// The same without what capture saw, which may be large and is not the caller's.
    pub fn caller_fields(&self) -> Result<RawObject, ValidationError> {
        self.write(false)
    }
}

/// Reads reasons; words that name a source are not among them.
fn reasons(fields: &mut RawObject, name: &str, path: &JsonPath<'_>) -> Result<Vec<String>, ValidationError> {
    let mut reasons: Vec<String> = optional(fields, name, path)?;
    reasons.retain(|text| !Source::NAMES.contains(&text.as_str()));
    Ok(reasons)
}

/// Reads any JSON, `null` too.
fn verbatim(
    fields: &mut RawObject,
    name: &str,
    _: &JsonPath<'_>,
) -> Result<Option<RawJson>, ValidationError> {
    Ok(fields.take(name))
}

/// Reads an object and keeps its text.
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

/// Reads files, each an object or its path alone.
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
            Ok(Self(FileRef { path, sha256: None, size: None, extra: RawObject::default() }))
        }
    }
    Ok(optional::<Vec<PathOrObject>>(fields, name, path)?.into_iter().map(|file| file.0).collect())
}
