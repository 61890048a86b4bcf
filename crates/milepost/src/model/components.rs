//! The parts that a checkpoint's body is made of: closed enums such as `Source` and `Status`, and objects such as `Phase`
//! and `Outcome`. Members of each object are listed in alphabetical order, the order they are written in.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{PAI_PHASES, Profile, RawJson, ValidationError, closed_enum, record};

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
    /// How one task stands, in the words that Milepost itself writes; a caller's own objects may hold others.
    pub enum TaskStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Ended well.
        Done = "done",
        /// Ended well, in another word.
        Completed = "completed",
        /// Ended badly.
        Failed = "failed",
        /// Left out.
        Skipped = "skipped",
        /// Begun, and given up by a process that went on living.
        Interrupted = "interrupted",
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
        violations: Option<RawJson> [optional],
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
    pub struct RedactionSummary {
        /// How often, by rule.
        counts: BTreeMap<String, u64> [optional],
        /// JSON pointers of the replaced strings.
        pointers: Vec<String> [optional],
    }
}

impl Phase {
    /// Under `pai`, a phase's name gives its number and its number its name; other profiles leave it as it is.
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

impl LogLine {
    /// How a line begins that is what the user said to an agent.
    const PROMPT: &str = "prompt: ";
    /// The member that says whose words a line holds, and its value for the user.
    const SAID_BY: (&str, &str) = ("said_by", "\"user\"");

    /// A line that holds what the user said to an agent.
    pub fn of_prompt(at: Timestamp, text: &str) -> Result<Self, ValidationError> {
        let (name, user) = Self::SAID_BY;
        let mut line = Self { at, text: format!("{}{text}", Self::PROMPT), extra: Default::default() };
        line.extra.set(name, RawJson::parse(user)?);
        Ok(line)
    }

    /// The line as somebody else's words: what a caller gives as input is not what the user said.
    #[must_use]
    pub fn without_speaker(mut self) -> Self {
        self.extra.take(Self::SAID_BY.0);
        self
    }

    /// What the user said to an agent, if the line is that. The words alone do not make it so: an agent can write them.
    pub fn prompt(&self) -> Option<&str> {
        let (name, user) = Self::SAID_BY;
        let is_user = self.extra.get(name).is_some_and(|value| value.get() == user);
        self.text.strip_prefix(Self::PROMPT).filter(|_| is_user)
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
