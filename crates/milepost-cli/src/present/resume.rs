//! The results of `resume`: whether a run can be continued, why it stopped, what comes next, and its brief.
//! Programs get JSON or the brief alone; people on a terminal get a page above the brief.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use milepost::brief::{FittedBrief, Omitted};
use milepost::internal::capture::commit_distance::CommitDistance;
use milepost::internal::engine::{ResumeDecision, RunAssessment, RunState};
use milepost::model::{CheckpointId, InterruptionKind, Phase, RunId};
use milepost::{ReasonCode, Status};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::damage::Fallback;
use super::format::{bold, clean, dim, push_fields, wrap, yellow};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::handover::Overview;

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ResumeDocument {
    Decision(Box<DecisionDocument>),
    Started(StartedDocument),
    Dismissed(DismissedDocument),
}

/// Whether a run can be continued, and its brief.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.resume/1")]
pub(crate) struct DecisionDocument {
    pub(crate) decision: Decision,
    pub(crate) brief: Option<String>,
    tokens: u64,
    omitted: Vec<Omitted>,
    /// The lines above the brief, for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lead: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) about: Option<Overview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continued_by: Option<RunId>,
    /// The distance of the checked-out commit from the commit of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<String>,
    /// The new run that was started to continue this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<StartedDocument>,
    #[serde(skip)]
    subject: Subject,
    #[serde(skip)]
    format: Option<ResumeFormat>,
}

#[derive(Serialize)]
pub(crate) struct Decision {
    #[serde(flatten)]
    verdict: ResumeDecision,
    pub(crate) run_id: Option<RunId>,
    snapshot_id: Option<CheckpointId>,
    phase: Option<Phase>,
    #[serde(rename = "fell_back_from", skip_serializing_if = "Fallback::is_empty")]
    fallback: Fallback,
    next_actions: Vec<String>,
}

/// A run that continues another.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.resume/1")]
pub(crate) struct StartedDocument {
    pub(crate) run_id: RunId,
    pub(crate) parent: Option<CheckpointId>,
    pub(crate) continues: RunId,
    pub(crate) status: Status,
}

/// A run that was dismissed.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.resume/1")]
pub(crate) struct DismissedDocument {
    pub(crate) dismissed: RunId,
}

/// The subject of a decision.
enum Subject {
    Nothing,
    File(PathBuf),
    Run(Box<Examination>),
}

/// A run, and the facts that `resume` collected about it.
pub(crate) struct Examination {
    pub(crate) overview: Overview,
    pub(crate) from: RunAssessment,
    /// The uncommitted changes, and the state of the branch.
    pub(crate) workspace: Option<(String, String)>,
    pub(crate) distance: Option<CommitDistance>,
    /// Number of other runs that could be resumed.
    pub(crate) others: usize,
    /// Whether to show only the decision (`--check`).
    pub(crate) check: bool,
    /// An agent installed on this machine that could continue the run.
    pub(crate) agent: Option<&'static str>,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResumeFormat {
    Md,
    Json,
}

impl DecisionDocument {
    /// The decision if no run was interrupted.
    pub(crate) fn nothing() -> Self {
        Self {
            decision: Decision {
                verdict: ResumeDecision {
                    reason_code: ReasonCode::ResumeMissingCheckpoint,
                    class: InterruptionKind::CleanStop,
                    run_state: RunState::Ended,
                    eligible: false,
                },
                run_id: None,
                snapshot_id: None,
                phase: None,
                fallback: Fallback::default(),
                next_actions: Vec::new(),
            },
            brief: None,
            tokens: 0,
            omitted: Vec::new(),
            lead: None,
            about: None,
            continued_by: None,
            distance: None,
            started: None,
            subject: Subject::Nothing,
            format: None,
        }
    }

    /// The decision about a brief in a file.
    pub(crate) fn of_file(file: &Path, brief: FittedBrief, format: Option<ResumeFormat>) -> Self {
        let mut document = Self::nothing();
        document.decision.verdict = ResumeDecision {
            reason_code: ReasonCode::ResumeAllowed,
            class: InterruptionKind::Unknown,
            run_state: RunState::Stopped,
            eligible: true,
        };
        Self { subject: Subject::File(file.to_owned()), format, ..document.with_brief(brief) }
    }

    /// The decision about a run.
    pub(crate) fn new(
        examination: Examination,
        brief: Option<FittedBrief>,
        fallback: Fallback,
        format: Option<ResumeFormat>,
    ) -> Self {
        let Examination { overview, from, distance, .. } = &examination;
        let document = Self {
            decision: Decision {
                verdict: from.decision,
                run_id: Some(overview.run_id.clone()),
                snapshot_id: overview.snapshot_id.clone(),
                phase: overview.phase.clone(),
                fallback,
                next_actions: overview.next_actions.clone(),
            },
            lead: Some(match from.decision.eligible {
                true => overview.introduction(),
                false => verdict(overview, from),
            }),
            about: Some(overview.clone()),
            continued_by: from.claimed_by.clone(),
            distance: distance.as_ref().map(ToString::to_string),
            subject: Subject::Run(Box::new(examination)),
            format,
            ..Self::nothing()
        };
        match brief {
            Some(brief) => document.with_brief(brief),
            None => document,
        }
    }

    fn with_brief(self, brief: FittedBrief) -> Self {
        Self {
            brief: Some(brief.markdown().clone()),
            tokens: brief.tokens(),
            omitted: brief.omitted().clone(),
            ..self
        }
    }

    /// Writes everything above the brief.
    fn write_heading(&self, output: &Output) -> Result<()> {
        // People get a page above the brief; programs that read the output get the brief alone.
        let with_page = self.format.is_none() && output.is_terminal();
        match &self.subject {
            Subject::Nothing => {
                let message = "nothing to resume: no run here was interrupted";
                Err(CommandError::new(ReasonCode::ResumeMissingCheckpoint, message)
                    .with_exit(Exit::Nothing)
                    .with_hint("`milepost status` lists the runs; `milepost resume RUN` inspects one"))
            }
            Subject::File(file) if with_page => {
                output.write_text(&format!("{} {}\n\n", bold("Resume from"), clean(&file.to_string_lossy())))
            }
            Subject::File(_) => Ok(()),
            Subject::Run(run) if run.check => output.write_text(&verdict(&run.overview, &run.from)),
            Subject::Run(run) => {
                if with_page {
                    output.write_text(&page(run, output.width()))?;
                } else if !self.decision.verdict.eligible {
                    output.message(verdict(&run.overview, &run.from).trim_end());
                }
                let distance = run.distance.as_ref().filter(|distance| **distance != CommitDistance::Same);
                if let Some(distance) = distance.filter(|_| !output.is_terminal()) {
                    output.message(&format!("This checkout relative to the run's commit: {distance}"));
                }
                Ok(())
            }
        }
    }
}

impl Document for DecisionDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.format == Some(ResumeFormat::Json) {
            return output.write_json(self);
        }
        self.write_heading(output)?;
        self.brief.as_ref().map_or(Ok(()), |brief| output.write_plain(brief))
    }

    fn error(&self) -> Option<CommandError> {
        let refused = || (!self.decision.verdict.eligible).then_some(CommandError::ExitOnly(Exit::Nothing));
        self.decision.fallback.error().or_else(refused)
    }
}

impl Document for ResumeDocument {
    fn render(&self, output: &Output) -> Result<()> {
        match self {
            Self::Decision(document) => document.render(output),
            Self::Started(StartedDocument { run_id, continues, .. }) => {
                output.message(&format!(
                    "Continues {continues}; `milepost resume {continues}` prints the brief"
                ));
                output.write_text(&format!("{run_id}\n"))
            }
            Self::Dismissed(DismissedDocument { dismissed: run, .. }) => {
                output
                    .message(&format!("{run} is no longer offered; `milepost resume {run}` still shows it"));
                Ok(())
            }
        }
    }

    fn change(&self) -> Option<String> {
        match self {
            Self::Decision(_) => None,
            Self::Started(StartedDocument { run_id, continues, .. }) => {
                Some(format!("run {run_id} was started and continues {continues}"))
            }
            Self::Dismissed(DismissedDocument { dismissed: run, .. }) => {
                Some(format!("run {run} was dismissed"))
            }
        }
    }

    fn error(&self) -> Option<CommandError> {
        match self {
            Self::Decision(document) => document.error(),
            Self::Started(_) | Self::Dismissed(_) => None,
        }
    }
}

/// One line: whether the run can be continued, and why.
fn verdict(overview: &Overview, from: &RunAssessment) -> String {
    let (can, why) = match from.decision.eligible {
        true => ("can", overview.why().to_owned()),
        false => ("cannot", clean(&from.refusal_reason())),
    };
    format!("{} {can} be continued: {why} ({})\n", overview.run_id, from.decision.reason_code)
}

/// The column at which the values of the page start.
const LABEL_WIDTH: usize = 12;

/// The page above the brief: what the run was doing, why it stopped, and the next commands.
fn page(examination: &Examination, width: Option<usize>) -> String {
    let Examination { overview, from, workspace, others, agent, .. } = examination;
    let mut text = String::new();
    let name = clean(&overview.name());
    let (state, is_warning) = match from.decision.eligible {
        true => ("can be resumed".to_owned(), false),
        false => (clean(&from.refusal_reason()), true),
    };
    let fits = |line: &str| width.is_none_or(|width| line.width() <= width);
    let separator = match (is_warning, fits(&format!("{name}  {state}"))) {
        (_, false) => "\n",
        (true, true) => "  ",
        (false, true) => " ",
    };
    let state = wrap(&state, 0, width);
    let state = if is_warning { yellow(&state) } else { state };
    let _ = writeln!(text, "{}{separator}{state}\n", bold(&wrap(&name, 0, width)));
    let by = overview.agent.as_deref().map_or(String::new(), |agent| format!(", {agent}"));
    let detail = overview.detail.as_deref().map_or(String::new(), |detail| format!(" ({detail})"));
    let sessions =
        if overview.sessions > 1 { format!(" in {} sessions", overview.sessions) } else { String::new() };
    let (uncommitted, branch) = workspace.clone().unzip();
    let fields = [
        ("Run", Some(format!("{}{by}", overview.run_id))),
        ("Doing", overview.doing.clone()),
        ("Stopped", Some(format!("{}: {}{detail}", overview.stopped, overview.why()))),
        ("Ran for", Some(format!("{}{sessions}", overview.lasted))),
        ("Folder", overview.worktree.clone()),
        ("Uncommitted", uncommitted),
        ("Branch", branch),
        ("Failed last", overview.failed.clone()),
        ("Agent", overview.agent_resume.as_ref().map(|own| format!("{own} (resumes its own conversation)"))),
        ("Transcript", overview.transcript.clone()),
    ];
    let label = |name: &str| format!("{} ", bold(&format!("{name:<11}")));
    push_fields(&mut text, width, LABEL_WIDTH, label, fields);
    for (n, action) in (1..).zip(&overview.next_actions) {
        let number = format!("{n}. ");
        let action = wrap(&clean(action), LABEL_WIDTH + number.len(), width);
        let _ = writeln!(text, "{}{number}{action}", label(if n == 1 { "Next" } else { "" }));
    }
    text.push('\n');
    let name = overview.run_id.short().unwrap_or(overview.run_id.as_str());
    let eligible = from.decision.eligible;
    let has_command = from.detail.summary().intact().is_some_and(|record| record.command().is_some());
    let resume = |flag: &str| {
        let line = format!("milepost resume {name} --{flag}");
        let first = format!("milepost resume {name} \\");
        // A shell continues the command after a backslash at the end of a line.
        match (fits(&line), fits(&first)) {
            (true, _) => line,
            (false, true) => format!("{first}\n    --{flag}"),
            (false, false) => format!("milepost resume \\\n    {name} \\\n    --{flag}"),
        }
    };
    let commands = [
        (eligible && has_command).then(|| (resume("rerun"), "run its command again, in the same run")),
        agent
            .filter(|_| eligible)
            .map(|agent| (resume(&format!("with {agent}")), "start an agent with this brief")),
        (eligible && !has_command && agent.is_none())
            .then(|| (resume("start"), "open a run that continues this one")),
        eligible.then(|| (resume("dismiss"), "stop offering this run")),
        (*others > 0).then(|| ("milepost status".to_owned(), "list other runs that could be resumed")),
    ];
    let commands: Vec<_> = commands.into_iter().flatten().collect();
    let longest = commands.iter().map(|(command, _)| command.width()).max().unwrap_or_default();
    let in_columns = |what: &str| width.is_none_or(|width| longest + 2 + what.width() <= width);
    let use_columns = commands.iter().all(|(command, what)| in_columns(what) && !command.contains('\n'));
    for (command, what) in commands {
        let line = match use_columns {
            true => format!("{command:longest$}  {what}"),
            false => format!("{command}\n  {what}"),
        };
        text.push_str(&dim(&line));
        text.push('\n');
    }
    text.push('\n');
    text
}
