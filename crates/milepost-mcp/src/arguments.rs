//! What the tools take: the flags of the commands in snake_case, optional where the flag is. The comments are what the
//! model reads.

use milepost::model::{OutcomeKind, OutcomeResult, Source, Status, StepStatus, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Save a checkpoint of the work as it stands. Call it when a step, task or phase ends, before something risky, and
/// before you stop. What is not given is carried over from the run. Durable when it returns.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// The run; unless given, the run of this session, the only open one of this worktree, or a new one
    pub run: Option<String>,
    /// What made it happen; manual unless given
    pub source: Option<Source>,
    /// Why, beside the source, such as phase_completed, major_decision, context_shift
    #[serde(default)]
    pub reason: Vec<String>,
    /// How the work stands; in_progress unless given. failed and completed end the run
    pub status: Option<Status>,
    /// The phase's name
    pub phase: Option<String>,
    /// The phase's number
    pub phase_number: Option<u64>,
    /// What the work is about and where it stands, in a sentence or two
    pub summary: Option<String>,
    /// More fields of a checkpoint: state, tasks, criteria, decisions, files, metadata. As a string of JSON text it is
    /// kept to the last digit
    pub input: Option<Input>,
    /// A Markdown brief for whoever goes on, kept byte for byte
    pub brief: Option<String>,
    /// Do not look at the workspace: git, watched folders, memory
    #[serde(default)]
    pub no_capture: bool,
    /// Save only if the profile's interval has passed
    #[serde(default)]
    pub if_due: bool,
    /// Keep it whatever its age
    #[serde(default)]
    pub pin: bool,
    /// Names for it
    #[serde(default)]
    pub tag: Vec<String>,
}

/// List checkpoints, newest first. Only reads.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only of this run
    pub run: Option<String>,
    /// At most so many, 20 unless given; 0 is all
    pub limit: Option<usize>,
    /// Only completed ones
    #[serde(default)]
    pub completed: bool,
    /// Only those that are not completed
    #[serde(default)]
    pub incomplete: bool,
    /// Only of this source
    pub source: Option<Source>,
    /// Only of this status
    pub status: Option<Status>,
    /// Only with this tag
    pub tag: Option<String>,
    /// Below their parents instead of newest first
    #[serde(default)]
    pub tree: bool,
}

/// Show one checkpoint whole, verified before it is shown. Only reads.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The run whose names go first
    pub run: Option<String>,
    /// An id, the start of one, latest, latest~2, RUN@12 or a tag; latest unless given
    pub r#ref: Option<String>,
}

/// Show what changed from one checkpoint to another, of any runs. Only reads.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// The run whose names go first
    pub run: Option<String>,
    /// The checkpoint to start from, named as for show
    pub from: String,
    /// The checkpoint to compare it with; the newest of the same run unless given
    pub to: Option<String>,
}

/// Get the brief of the work that was interrupted here: what it was doing, why it stopped, what was decided, what failed
/// last, what comes next. Call it first, before you do anything else, and again when your context was cut. Only reads,
/// unless start or dismiss is given.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The run; unless given, the one that was interrupted last in this worktree, else the run of this session
    pub run: Option<String>,
    /// Tokens of the brief at most; 2000 unless given
    pub budget: Option<u64>,
    /// Only say whether it may be continued, without the brief
    #[serde(default)]
    pub check: bool,
    /// Open a run that continues it; what you save, record, decide and plan from then on goes there
    #[serde(default)]
    pub start: bool,
    /// No longer offer it
    #[serde(default)]
    pub dismiss: bool,
    /// Also where its owner lives, but waits or is silent
    #[serde(default)]
    pub take_over: bool,
    /// Work from a brief in this file of the project instead; needs no store
    pub from: Option<String>,
}

/// Record a decision, so that nobody asks again: it is in every checkpoint and brief from now on and never dropped.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The run, as for save
    pub run: Option<String>,
    /// What was decided, and why, in a sentence
    pub text: String,
    /// The decision it replaces, word for word
    pub supersedes: Option<String>,
}

/// Record how a command or tool ended. It is part of the next checkpoint.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The run, as for save
    pub run: Option<String>,
    /// What it is
    pub kind: OutcomeKind,
    /// Its name, such as the command line
    pub name: String,
    /// How it ended
    pub result: OutcomeResult,
    /// How long it took
    pub duration_ms: u64,
    /// What it did or said last, in at most 2,048 bytes
    pub summary: Option<String>,
    /// Why it ended so
    pub reason_code: Option<String>,
}

/// Say how the tasks of your plan stand, several at once, or list them: without `tasks` it only reads. A task that ends
/// is a checkpoint at once. Tasks that are not named stay as they are.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// The run, as for save
    pub run: Option<String>,
    /// The tasks that are new or have changed
    pub tasks: Option<Vec<Task>>,
}

/// One task.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// A short id that stays; a subtask is PARENT/CHILD
    pub id: String,
    /// How it stands
    pub status: TaskStatus,
    /// What people call it; stays unless given
    pub title: Option<String>,
}

/// Say that a step of a plan begins or ends, which is a checkpoint at once. done and fail need a step that has begun.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The run, as for save
    pub run: Option<String>,
    /// What happens to it
    pub what: StepVerb,
    /// The step
    pub id: String,
    /// The plan's file
    pub plan: Option<String>,
    /// The step's number in the plan
    pub ordinal: Option<u64>,
    /// What people call it
    pub title: Option<String>,
}

/// What can happen to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepVerb {
    /// It begins.
    Begin,
    /// It ends well.
    Done,
    /// It ends badly.
    Fail,
    /// It is left out.
    Skip,
}

impl From<StepVerb> for StepStatus {
    fn from(verb: StepVerb) -> Self {
        match verb {
            StepVerb::Begin => Self::InProgress,
            StepVerb::Done => Self::Done,
            StepVerb::Fail => Self::Failed,
            StepVerb::Skip => Self::Skipped,
        }
    }
}

/// Complete a checkpoint and the earlier ones of its run. Completing the newest ends the run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// The run whose names go first
    pub run: Option<String>,
    /// The checkpoint, named as for show
    pub r#ref: String,
}

/// A JSON object, as its text: given as an object, or as a string that holds one.
#[derive(Debug, Clone)]
pub struct Input(pub String);

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }))
    }
}

impl JsonSchema for Input {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Input".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // Some agents refuse a choice of types; that a string is taken too, the description says.
        schemars::json_schema!({ "type": "object" })
    }
}
