//! The pieces of a checkpoint's body, with the contracts of the snapshot schema: closed enums, counts of 0 or more.
//! Members of each record stand in alphabetical order, since that is the order they are written in.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Fields, FromRaw, Invalid, Path, Raw, closed_enum, record};

closed_enum! {
    /// What made a checkpoint happen.
    pub enum Source {
        /// A step began or ended.
        StepBoundary = "step_boundary",
        /// Something failed.
        ErrorBoundary = "error_boundary",
        /// An interval passed.
        Timer = "timer",
        /// Somebody asked.
        Manual = "manual",
    }
}

closed_enum! {
    /// How the work stood.
    pub enum Status {
        /// Under way.
        InProgress = "in_progress",
        /// Ended badly.
        Failed = "failed",
        /// Ended well.
        Completed = "completed",
        /// Set aside.
        Paused = "paused",
    }
}

impl Status {
    /// Whether the work has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Completed)
    }
}

closed_enum! {
    /// How one criterion stands.
    pub enum CriterionStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Met.
        Completed = "completed",
    }
}

closed_enum! {
    /// How one step of a plan stands.
    pub enum StepStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Ended well.
        Done = "done",
        /// Ended badly.
        Failed = "failed",
        /// Left out.
        Skipped = "skipped",
    }
}

closed_enum! {
    /// How full the context window is.
    pub enum Pressure {
        /// Plenty of room.
        Low = "low",
        /// Filling up.
        Medium = "medium",
        /// Nearly full.
        High = "high",
    }
}

closed_enum! {
    /// What kind of command an outcome is of.
    pub enum OutcomeKind {
        /// A shell command.
        Shell = "shell",
        /// A slash command of an agent.
        SlashCommand = "slash_command",
        /// A tool of an agent.
        ToolUse = "tool_use",
    }
}

closed_enum! {
    /// How a command ended.
    pub enum OutcomeResult {
        /// Well.
        Pass = "PASS",
        /// Badly.
        Fail = "FAIL",
        /// Well, with something to look at.
        Warn = "WARN",
    }
}

record! {
    /// The phase the work was in.
    #[derive(Default)]
    pub struct Phase {
        /// Its name, for example BUILD.
        name: Option<String> [optional],
        /// Its number, 0 or more.
        number: u64 [optional],
    }
}

record! {
    /// One criterion of success.
    pub struct Criterion {
        /// Its id within the run.
        id: String [required],
        /// How it stands.
        status: CriterionStatus [required],
        /// What has to be true.
        subject: String [optional],
    }
}

record! {
    /// What a check of the to-do list found.
    #[derive(Default)]
    pub struct TodoCompliance {
        /// When it was checked.
        checked_at: Option<Timestamp> [optional],
        /// Its result.
        result: Option<String> [optional],
        /// What was violated, as the checker wrote it.
        violations: Option<Raw> [optional],
    }
}

record! {
    /// What the writer advised about resuming.
    #[derive(Default)]
    pub struct ResumeHints {
        /// Whether resuming is allowed.
        eligible: Option<bool> [optional],
        /// What to do next.
        next_actions: Vec<String> [optional],
        /// Why it is or is not allowed.
        reason_code: Option<String> [optional],
    }
}

record! {
    /// Where in a plan the work was.
    #[derive(Default)]
    pub struct StepState {
        /// The plan's file.
        plan_path: Option<String> [optional],
        /// Advice about resuming.
        resume_hints: ResumeHints [optional],
        /// The step's id.
        step_id: Option<String> [optional],
        /// The step's number.
        step_ordinal: Option<u64> [optional],
        /// How the step stands.
        step_status: Option<StepStatus> [optional],
        /// How the to-do list was kept.
        todo_compliance: TodoCompliance [optional],
    }
}

record! {
    /// How healthy the agent's context was.
    #[derive(Default)]
    pub struct ContextDigest {
        /// How many items were dropped.
        dropped_items: u64 [optional],
        /// The active resilience profile.
        policy_profile: Option<String> [optional],
        /// Paths or ids that must stay.
        protected_artifacts: Vec<String> [optional],
        /// How full the window is.
        window_pressure: Option<Pressure> [optional],
    }
}

record! {
    /// How one command or tool ended.
    pub struct Outcome {
        /// How long it took.
        duration_ms: u64 [optional],
        /// Of what kind it is.
        kind: OutcomeKind [required],
        /// Its name.
        name: String [required],
        /// Why it ended so.
        reason_code: Option<String> [optional],
        /// How it ended.
        result: OutcomeResult [required],
        /// At most 2 KB on what it did.
        summary: String [optional],
    }
}

record! {
    /// A decision that must not be asked again.
    pub struct Decision {
        /// When it was made.
        at: Timestamp [required],
        /// The text of the decision it replaces.
        supersedes: Option<String> [optional],
        /// What was decided.
        text: String [required],
    }
}

record! {
    /// One line of the run's log.
    pub struct LogLine {
        /// When it was written.
        at: Timestamp [required],
        /// What it says.
        text: String [required],
    }
}

record! {
    /// A file that the caller wants remembered, by reference.
    pub struct FileRef {
        /// Its path, as the caller gave it.
        path: String [required],
        /// Its digest.
        sha256: Option<String> [optional],
        /// Its size in bytes.
        size: Option<u64> [optional],
    }
}

record! {
    /// What redaction replaced.
    #[derive(Default)]
    pub struct Redacted {
        /// How often, by rule.
        counts: BTreeMap<String, u64> [optional],
        /// JSON pointers of the replaced strings.
        pointers: Vec<String> [optional],
    }
}

/// One task of a plan: the caller's object, its members in their order and verbatim.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    id: String,
    status: String,
    fields: Fields,
}

impl Task {
    /// A task of one's own.
    pub fn new(id: &str, status: &str, title: Option<&str>) -> Result<Self, Invalid> {
        let mut fields = Fields::default();
        fields.set("id", Raw::of(id)?);
        if let Some(title) = title {
            fields.set("title", Raw::of(title)?);
        }
        fields.set("status", Raw::of(status)?);
        Ok(Self { id: id.to_owned(), status: status.to_owned(), fields })
    }

    /// Its id within the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How it stands, in the caller's words.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// Its title, where it has one.
    pub fn title(&self) -> Option<String> {
        self.fields.get("title").and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Sets members, keeping the place of those that are there and every other member as it is.
    pub fn update(&mut self, status: &str, title: Option<&str>) -> Result<(), Invalid> {
        self.fields.set("status", Raw::of(status)?);
        self.status = status.to_owned();
        if let Some(title) = title {
            self.fields.set("title", Raw::of(title)?);
        }
        Ok(())
    }

    /// Whether it ended well.
    pub fn is_completed(&self) -> bool {
        matches!(self.status.as_str(), "done" | "completed" | "complete")
    }

    /// Whether it ended badly.
    pub fn is_failed(&self) -> bool {
        self.status == "failed"
    }
}

impl FromRaw for Task {
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        let fields = Fields::parse(text, path)?;
        let word = |name: &str| match fields.get(name) {
            Some(raw) => String::from_raw(raw.get(), &path.key(name)),
            None => Err(Invalid::at(&path.key(name), "is missing")),
        };
        Ok(Self { id: word("id")?, status: word("status")?, fields })
    }
}

super::json::deserialize_from_raw!(Task);

impl serde::Serialize for Task {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

impl schemars::JsonSchema for Task {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Task".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "One task of a plan; members beside these are kept verbatim.",
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "title": { "type": "string" },
                "status": { "type": "string" }
            },
            "required": ["id", "status"],
            "additionalProperties": true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_members_in_order() {
        let text = r#"{"id":"t1","agent":"MARS","n":1.0,"status":"pending","big":9007199254740993}"#;
        let mut task = Task::from_raw(text, &Path::Root).unwrap();
        assert_eq!(serde_json::to_string(&task).unwrap(), text);
        task.update("done", None).unwrap();
        assert_eq!(serde_json::to_string(&task).unwrap(), text.replace("pending", "done"));
        assert!(task.is_completed());
    }

    #[test]
    fn records_keep_unknown_members_and_write_them_sorted() {
        let text = r#"{"zeta":-0.0,"status":"pending","subject":"s","id":"c1","alpha":{"b":1,"a":2}}"#;
        let criterion = Criterion::from_raw(text, &Path::Root).unwrap();
        assert_eq!(
            serde_json::to_string(&criterion).unwrap(),
            r#"{"alpha":{"b":1,"a":2},"id":"c1","status":"pending","subject":"s","zeta":-0.0}"#
        );
    }

    #[test]
    fn errors_name_the_place_and_what_is_allowed() {
        let text =
            r#"[{"kind":"shell","name":"a","result":"PASS"},{"kind":"shell","name":"a","result":"maybe"}]"#;
        let error = Vec::<Outcome>::from_raw(text, &Path::Root.key("command_outcomes")).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"/command_outcomes/1/result: "maybe" is not one of PASS, FAIL, WARN"#
        );
        let text = r#"{"dropped_items":-1}"#;
        let error = ContextDigest::from_raw(text, &Path::Root).unwrap_err();
        assert_eq!(error.path, "/dropped_items");
    }
}
