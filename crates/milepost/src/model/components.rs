//! The parts of a checkpoint's body: closed enums such as `Source` and `Status`, and objects such as `Phase`
//! and `Outcome`. The members of each object are declared in alphabetical order, because they are written in
//! that order.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{BlobId, PAI_PHASES, Profile, RawJson, ValidationError, closed_enum, record};

closed_enum! {
    /// What triggered a checkpoint.
    pub enum Source {
        /// A step began or ended.
        StepBoundary = "step_boundary",
        /// A task failed, or another error occurred.
        ErrorBoundary = "error_boundary",
        /// The interval of a timer passed.
        Timer = "timer",
        /// A user or a program requested it.
        Manual = "manual",
    }
}

closed_enum! {
    /// The status of the work.
    pub enum Status {
        /// The work is in progress.
        InProgress = "in_progress",
        /// The work ended with a failure.
        Failed = "failed",
        /// The work ended successfully.
        Completed = "completed",
        /// The work is paused.
        Paused = "paused",
    }
}

impl Status {
    /// Returns true if the work has ended, successfully or not.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Completed)
    }
}

closed_enum! {
    /// The status of a success criterion.
    pub enum CriterionStatus {
        /// Work on it has not begun.
        Pending = "pending",
        /// Work on it is in progress.
        InProgress = "in_progress",
        /// The criterion is met.
        Completed = "completed",
    }
}

closed_enum! {
    /// The status of a step of a plan.
    pub enum StepStatus {
        /// The step has not begun.
        Pending = "pending",
        /// The step is in progress.
        InProgress = "in_progress",
        /// The step ended successfully.
        Done = "done",
        /// The step failed.
        Failed = "failed",
        /// The step was skipped.
        Skipped = "skipped",
    }
}

closed_enum! {
    /// The task statuses that Milepost writes. A caller's own task objects can have other values.
    pub enum TaskStatus {
        /// The task has not begun.
        Pending = "pending",
        /// The task is in progress.
        InProgress = "in_progress",
        /// The task ended successfully.
        Done = "done",
        /// A synonym of `done`.
        Completed = "completed",
        /// The task failed.
        Failed = "failed",
        /// The task was skipped.
        Skipped = "skipped",
        /// The task was started and then abandoned by a process that kept running.
        Interrupted = "interrupted",
    }
}

closed_enum! {
    /// How full an agent's context window is.
    pub enum Pressure {
        /// Most of the window is free.
        Low = "low",
        /// The window is filling up.
        Medium = "medium",
        /// The window is nearly full.
        High = "high",
    }
}

closed_enum! {
    /// The kind of command that an outcome describes.
    pub enum OutcomeKind {
        /// A shell command.
        Shell = "shell",
        /// An agent's slash command.
        SlashCommand = "slash_command",
        /// A call of an agent's tool.
        ToolUse = "tool_use",
    }
}

closed_enum! {
    /// The result of a command.
    pub enum OutcomeResult {
        /// The command succeeded.
        Pass = "PASS",
        /// The command failed.
        Fail = "FAIL",
        /// The command succeeded with warnings.
        Warn = "WARN",
    }
}

record! {
    /// A phase of the work.
    #[derive(Default)]
    pub struct Phase {
        /// The name of the phase, for example `BUILD`.
        name: Option<String> [optional],
        /// The number of the phase; 0 if it has none.
        number: u64 [optional],
    }
}

record! {
    /// A success criterion.
    pub struct Criterion {
        /// The id of the criterion within the run.
        id: String [required],
        /// The status of the criterion.
        status: CriterionStatus [required],
        /// The condition to meet.
        subject: String [optional],
    }
}

record! {
    /// The result of a check of the to-do list.
    #[derive(Default)]
    pub struct TodoCompliance {
        /// The time of the check.
        checked_at: Option<Timestamp> [optional],
        /// The result of the check.
        result: Option<String> [optional],
        /// The violations, exactly as the checker reported them.
        violations: Option<RawJson> [optional],
    }
}

record! {
    /// The writer's advice about resuming.
    #[derive(Default)]
    pub struct ResumeHints {
        /// Whether the step can be resumed.
        eligible: Option<bool> [optional],
        /// The actions to take next.
        next_actions: Vec<String> [optional],
        /// The reason for `eligible`.
        reason_code: Option<String> [optional],
    }
}

record! {
    /// The position of the work in a plan.
    #[derive(Default)]
    pub struct StepState {
        /// The path of the plan file.
        plan_path: Option<String> [optional],
        /// Advice about resuming.
        resume_hints: ResumeHints [optional],
        /// The id of the step.
        step_id: Option<String> [optional],
        /// The number of the step.
        step_ordinal: Option<u64> [optional],
        /// The status of the step.
        step_status: Option<StepStatus> [optional],
        /// The result of the last check of the to-do list.
        todo_compliance: TodoCompliance [optional],
    }
}

record! {
    /// The state of the agent's context.
    #[derive(Default)]
    pub struct ContextDigest {
        /// The number of items dropped from the context.
        dropped_items: u64 [optional],
        /// The name of the active resilience profile.
        policy_profile: Option<String> [optional],
        /// Paths or ids that must stay in the context.
        protected_artifacts: Vec<String> [optional],
        /// How full the context window is.
        window_pressure: Option<Pressure> [optional],
    }
}

record! {
    /// The outcome of one command or tool call.
    pub struct Outcome {
        /// The duration in milliseconds.
        duration_ms: u64 [optional],
        /// The kind of command.
        kind: OutcomeKind [required],
        /// The name of the command or tool.
        name: String [required],
        /// The reason for the result.
        reason_code: Option<String> [optional],
        /// The result of the command.
        result: OutcomeResult [required],
        /// A summary of what the command did, at most 2,048 bytes.
        summary: String [optional],
    }
}

record! {
    /// A decision that the agent must not revisit.
    pub struct Decision {
        /// The time of the decision.
        at: Timestamp [required],
        /// The text of the decision that this one replaces.
        supersedes: Option<String> [optional],
        /// What was decided.
        text: String [required],
    }
}

record! {
    /// One line of the run's log.
    pub struct LogLine {
        /// When the line was written.
        at: Timestamp [required],
        /// The text of the line.
        text: String [required],
    }
}

record! {
    /// A reference to a file.
    pub struct FileRef {
        /// The content right after an agent's tool wrote the file, if it was stored.
        blob: Option<BlobId> [optional],
        /// The path, as the caller gave it.
        path: String [required],
        /// The SHA-256 digest of the content.
        sha256: Option<String> [optional],
        /// The size in bytes.
        size: Option<u64> [optional],
    }
}

record! {
    /// A summary of the values that redaction replaced.
    #[derive(Default)]
    pub struct RedactionSummary {
        /// The number of replacements by rule.
        counts: BTreeMap<String, u64> [optional],
        /// JSON pointers of the replaced strings.
        pointers: Vec<String> [optional],
    }
}

impl Phase {
    /// Fills in the missing name or number of a phase of the `pai` profile. A name takes precedence over a
    /// number. Other profiles return the phase unchanged.
    pub fn completed(&self, profile: Profile) -> Self {
        let mut phase = self.clone();
        if profile != Profile::Pai {
            return phase;
        }
        match &self.name {
            Some(name) => {
                let at = PAI_PHASES.iter().position(|known| known.eq_ignore_ascii_case(name));
                phase.number = at.map_or(phase.number, |at| at as u64 + 1);
            }
            None => {
                let at = usize::try_from(self.number).ok().and_then(|number| number.checked_sub(1));
                phase.name = at.and_then(|at| PAI_PHASES.get(at)).map(|name| (*name).to_owned());
            }
        }
        phase
    }
}

impl Outcome {
    /// The members that contain the time at which the command ended and the folder in which it ran.
    const AT: &str = "at";
    const FOLDER: &str = "folder";

    /// Returns the time at which the command ended, if it was recorded.
    pub fn at(&self) -> Option<Timestamp> {
        serde_json::from_str(self.extra.get(Self::AT)?.get()).ok()
    }

    /// Returns the folder in which the command ran, if it was recorded.
    pub fn folder(&self) -> Option<String> {
        serde_json::from_str(self.extra.get(Self::FOLDER)?.get()).ok()
    }

    /// Sets the folder in which the command ran.
    pub fn in_folder(mut self, folder: &str) -> Result<Self, ValidationError> {
        self.extra.set(Self::FOLDER, RawJson::of(folder)?);
        Ok(self)
    }

    /// Sets the time at which the command ended, unless it is already set.
    pub(crate) fn ended_at(mut self, at: Timestamp) -> Result<Self, ValidationError> {
        if self.extra.get(Self::AT).is_none() {
            self.extra.set(Self::AT, RawJson::of(&at)?);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FromRawJson, JsonPath};
    use super::*;

    #[test]
    fn records_keep_unknown_members_and_write_them_sorted() {
        let text = r#"{"zeta":-0.0,"status":"pending","subject":"s","id":"c1","alpha":{"b":1,"a":2}}"#;
        let criterion = Criterion::from_raw(text, &JsonPath::Root).unwrap();
        assert_eq!(
            serde_json::to_string(&criterion).unwrap(),
            r#"{"alpha":{"b":1,"a":2},"id":"c1","status":"pending","subject":"s","zeta":-0.0}"#
        );
    }

    #[test]
    fn errors_name_the_place_and_what_is_allowed() {
        let text =
            r#"[{"kind":"shell","name":"a","result":"PASS"},{"kind":"shell","name":"a","result":"maybe"}]"#;
        let error = Vec::<Outcome>::from_raw(text, &JsonPath::Root.key("command_outcomes")).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"/command_outcomes/1/result: "maybe" is not one of PASS, FAIL, WARN"#
        );
        let text = r#"{"dropped_items":-1}"#;
        let error = ContextDigest::from_raw(text, &JsonPath::Root).unwrap_err();
        assert_eq!(error.path, "/dropped_items");
    }
}
