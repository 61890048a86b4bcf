//! The results of `agents`: changes to the agents' files, done or planned, as a list or a diff, and the
//! state of the setup.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use milepost::ReasonCode;
use serde::Serialize;
use similar::{Algorithm, ChangeTag, capture_diff_slices, group_diff_ops};

use super::format::{bold, clean, dim, green, red, wrap, yellow};
use super::table::{Column, Table, cell};
use super::{Document, Output};
use crate::agents::setup::{Action, FileChange, Part, Plan, RefusedFile, Setup};
use crate::agents::{Agent, Scope};
use crate::config::{Origin, RecordScope};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// How changes are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Planned changes, with the diff.
    DryRun,
    /// Planned changes as a list, above the question.
    Preview,
    /// Completed changes.
    Done,
}

fn path_text(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

fn parts(change: &FileChange) -> String {
    let name = |part: &Part| match part {
        Part::Hooks => "hooks",
        Part::Command => "/checkpoint",
        Part::Mcp => "MCP server",
    };
    change.parts.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn heading(agent: Agent, scope: Scope, project: Option<&PathBuf>) -> String {
    match project {
        Some(root) => {
            format!("{} {}", bold(agent.name), dim(&format!("({}, {})", scope.name(), path_text(root))))
        }
        None => format!("{} {}", bold(agent.name), dim(&format!("({})", scope.name()))),
    }
}

/// The page for people.
pub(crate) fn page(plans: &[Plan], mode: Mode) -> String {
    let mut text = String::new();
    let mut not_installed = 0;
    for plan in plans {
        let nothing = plan.refused.is_empty() && plan.notes.is_empty() && !plan.has_changes();
        if nothing && plan.action == Action::Uninstall {
            not_installed += 1;
            continue;
        }
        let _ = writeln!(text, "{}", heading(plan.agent, plan.scope, plan.project.as_ref()));
        for change in &plan.changes {
            let _ = match (mode, change.has_effect()) {
                (_, false) => writeln!(text, "  {} {}", dim("unchanged"), path_text(&change.path)),
                (Mode::DryRun, true) => write!(text, "{}", diff(change)),
                (_, true) => {
                    let would = if mode == Mode::Preview { "will be " } else { "" };
                    let name = if change.name == "made" { "created" } else { change.name };
                    let action = green(&format!("{would}{name}"));
                    writeln!(
                        text,
                        "  {action} {} {}",
                        path_text(&change.path),
                        dim(&format!("({})", parts(change)))
                    )
                }
            };
            if let Some(backup) = &change.backup {
                let _ = writeln!(text, "    {} {}", dim("previous content:"), path_text(backup));
            }
        }
        for RefusedFile { path, why } in &plan.refused {
            let _ = writeln!(text, "  {} {}: {}", red("not changed"), path_text(path), clean(why));
        }
        for note in &plan.notes {
            let _ = writeln!(text, "  {} {}", yellow("note"), clean(note));
        }
        if nothing {
            let _ = writeln!(text, "  already set up");
        }
    }
    if not_installed > 0 && not_installed == plans.len() {
        text.push_str("Nothing is set up here.\n");
    }
    if mode == Mode::Done {
        for line in plans.iter().flat_map(|plan| &plan.to_do) {
            let _ = writeln!(text, "{} {}", bold("To do:"), clean(line));
        }
    }
    text
}

/// Where hooks record, in words.
fn describe_record(record: RecordScope) -> &'static str {
    match record {
        RecordScope::All => "in every git repository",
        RecordScope::Initialised => "only in projects where `milepost init` was run",
    }
}

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

fn diff(change: &FileChange) -> String {
    let mut text = String::new();
    let name = |there: bool| if there { path_text(&change.path) } else { "/dev/null".to_owned() };
    let _ = writeln!(text, "{}", bold(&format!("--- {}", name(change.before.is_some()))));
    let _ = writeln!(text, "{}", bold(&format!("+++ {}", name(change.after.is_some()))));
    let lines = |text| Option::<&str>::unwrap_or_default(text).lines().collect::<Vec<_>>();
    let (before, after) = (lines(change.before.as_deref()), lines(change.after.as_deref()));
    let operations = capture_diff_slices(Algorithm::Myers, &before, &after);
    for hunk in group_diff_ops(operations, CONTEXT_LINES) {
        let [Some(first), Some(last)] = [hunk.first(), hunk.last()] else { continue };
        // The range of an empty side starts at the line before it.
        let range =
            |start: usize, end: usize| format!("{},{}", start + usize::from(end > start), end - start);
        let old = range(first.old_range().start, last.old_range().end);
        let new = range(first.new_range().start, last.new_range().end);
        let _ = writeln!(text, "{}", dim(&format!("@@ -{old} +{new} @@")));
        for line in hunk.iter().flat_map(|operation| operation.iter_changes(&before, &after)) {
            let shown = format!("{}{}", line.tag(), clean(line.value()));
            let _ = match line.tag() {
                ChangeTag::Equal => writeln!(text, "{shown}"),
                ChangeTag::Delete => writeln!(text, "{}", red(&shown)),
                ChangeTag::Insert => writeln!(text, "{}", green(&shown)),
            };
        }
    }
    text
}

/// Files that could not be written.
pub(crate) type Failed = Vec<(PathBuf, std::io::Error)>;

/// Changes to the agents' files, done or planned.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.agents/1")]
pub(crate) struct SetupDocument {
    dry_run: bool,
    #[serde(rename = "agents")]
    plans: Vec<Plan>,
    #[serde(skip)]
    failed: Failed,
    #[serde(skip)]
    mode: Mode,
    /// Whether hooks find the program, in PATH or by its path.
    #[serde(skip)]
    can_run: bool,
    /// Where hooks recorded before this command.
    #[serde(skip)]
    record_before: RecordScope,
    /// The new value of `agents.record`, if it changes.
    #[serde(rename = "record", skip_serializing_if = "Option::is_none")]
    record_change: Option<RecordChange>,
}

/// A change of the setting `agents.record`.
#[derive(Serialize)]
pub(crate) struct RecordChange {
    #[serde(rename = "value")]
    pub(crate) record: RecordScope,
    /// The configuration file.
    pub(crate) file: String,
}

impl SetupDocument {
    pub(crate) fn new(
        mut plans: Vec<Plan>,
        failed: Failed,
        mode: Mode,
        can_run: bool,
        record_before: RecordScope,
    ) -> Self {
        let dry_run = mode == Mode::DryRun;
        for change in plans.iter_mut().flat_map(|plan| &mut plan.changes).filter(|_| dry_run) {
            let plain = |change| anstream::adapter::strip_str(&diff(change)).to_string();
            change.diff = change.has_effect().then(|| plain(change));
        }
        Self { dry_run, plans, failed, mode, can_run, record_before, record_change: None }
    }

    /// Adds the change of the setting `agents.record`.
    pub(crate) fn with_record(self, record_change: Option<RecordChange>) -> Self {
        Self { record_change, ..self }
    }

    /// The page for people.
    pub(crate) fn page(&self) -> String {
        let mut text = page(&self.plans, self.mode);
        let installs = self.plans.iter().any(|plan| plan.action == Action::Install && plan.is_possible());
        let record = match &self.record_change {
            Some(RecordChange { record, file }) => {
                let verb = if self.dry_run { "Hooks would record" } else { "Hooks record" };
                let (words, file) = (describe_record(*record), clean(file));
                let _ = writeln!(text, "{verb} {words} {}", dim(&format!("(agents.record in {file})")));
                *record
            }
            None if self.plans.is_empty() => {
                let _ = writeln!(text, "Hooks already record {}", describe_record(self.record_before));
                self.record_before
            }
            None => self.record_before,
        };
        if self.mode == Mode::Done && installs {
            text.push_str(match record {
                RecordScope::All => "Next: start the agent in a git repository.\n",
                RecordScope::Initialised => {
                    "Next: start the agent in a project with a store (`milepost init` creates one).\n"
                }
            });
        }
        text
    }
}

impl Document for SetupDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&self.page())?;
        let installs = self.plans.iter().any(|plan| plan.action == Action::Install && plan.is_possible());
        if installs && !self.can_run {
            output.message("Warning: milepost is not on PATH, so hooks and the MCP server cannot run it");
        }
        Ok(())
    }

    fn change(&self) -> Option<String> {
        (self.mode == Mode::Done).then(|| "the agents' files were changed".to_owned())
    }

    /// The exit code depends on whether some or all files were refused or failed.
    fn error(&self) -> Option<CommandError> {
        let Self { plans, failed, .. } = self;
        let refused: Vec<_> = plans.iter().flat_map(|plan| &plan.refused).collect();
        let some = plans.iter().any(|plan| plan.is_possible() && !plan.changes.is_empty());
        let all_failed = failed.len() >= plans.iter().map(|plan| plan.changes.len()).sum();
        let exit = if some && !all_failed { Exit::Partly } else { Exit::Failed };
        let error = match (&failed[..], &refused[..]) {
            ([(path, e), rest @ ..], _) => {
                let more = and_more(rest.len(), |n| format!(", and {n} more"));
                let message = format!("cannot write {}: {e}{more}", path.display());
                CommandError::new(ReasonCode::CheckpointAtomicWriteFailed, message)
                    .with_hint("fix the cause and run the command again; finished changes are not repeated")
            }
            ([], [RefusedFile { path, why }, rest @ ..]) => {
                let more = and_more(rest.len(), |n| format!(" (and {n} more, see above)"));
                let message = format!("{} was not changed: {why}{more}", path.display());
                CommandError::new(ReasonCode::AgentSettingsInvalid, message)
                    .with_hint("fix the file and run the command again; the agent may also fail to read it")
            }
            ([], []) => return None,
        };
        Some(error.with_exit(exit))
    }
}

fn and_more(n: usize, text: impl Fn(usize) -> String) -> String {
    if n > 0 { text(n) } else { String::new() }
}

/// The setup of one agent.
#[derive(Serialize)]
pub(crate) struct AgentStatus {
    pub(crate) agent: Agent,
    pub(crate) program: Option<String>,
    /// The file that shows that the agent has Milepost's plugin.
    pub(crate) plugin: Option<String>,
    #[serde(rename = "scopes")]
    pub(crate) setups: Vec<Setup>,
}

/// The setting `agents.record`, and where its value comes from.
#[derive(Serialize)]
pub(crate) struct RecordStatus {
    pub(crate) value: RecordScope,
    pub(crate) origin: Origin,
}

/// The setup of all agents.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.agents.status/1")]
pub(crate) struct StatusDocument {
    /// The path of the `milepost` program.
    #[serde(rename = "milepost")]
    pub(crate) program: Option<String>,
    /// Where hooks record.
    pub(crate) record: RecordStatus,
    pub(crate) agents: Vec<AgentStatus>,
    /// Other projects that have a setup.
    pub(crate) elsewhere: Vec<String>,
}

impl Document for StatusDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&self.page(output))
    }
}

impl StatusDocument {
    fn page(&self, output: &Output) -> String {
        let mut shown_table =
            Table::new(output, &["AGENT", "PROGRAM", "SCOPE", "HOOKS", "COMMAND", "MCP"].map(Column::new));
        let mut notes = String::new();
        for found in &self.agents {
            if let Some(file) = &found.plugin {
                let _ = writeln!(notes, "{} has the plugin ({})", found.agent, clean(file));
            }
            for setup in &found.setups {
                let part = |part| cell(setup.part(part).map_or("", |state| state.name().0));
                let program = if found.program.is_some() { "found" } else { "not found" };
                shown_table.add_row([
                    cell(found.agent.name),
                    cell(program),
                    cell(setup.scope.name()),
                    part(Part::Hooks),
                    part(Part::Command),
                    part(Part::Mcp),
                ]);
                for part in &setup.parts {
                    if let (name, Some(why)) = part.state.name() {
                        let name = if name == "yours" { dim(name) } else { yellow(name) };
                        let note = format!("{name} {}: {}\n", clean(&part.path), clean(why));
                        // Several parts may be in one file.
                        if !notes.contains(&note) {
                            notes.push_str(&note);
                        }
                    }
                }
                for line in &setup.user_steps {
                    let _ = writeln!(notes, "{} {}", bold("To do:"), clean(line));
                }
            }
        }
        let mut text = shown_table.lines();
        if self.program.is_none() {
            let warning = yellow("Warning:");
            let _ = writeln!(notes, "{warning} milepost is not on PATH, so hooks cannot run it");
        }
        for root in &self.elsewhere {
            let _ = writeln!(notes, "Also set up in {}", clean(root));
        }
        if !notes.is_empty() {
            text.push('\n');
            text.push_str(&notes);
        }
        text.push('\n');
        let RecordStatus { value, origin } = &self.record;
        let line = format!("Hooks record {} ({origin})", describe_record(*value));
        let _ = writeln!(text, "{}", wrap(&clean(&line), 0, output.width()));
        let _ = writeln!(text, "Next: {}", self.next());
        text
    }

    fn next(&self) -> String {
        let setups = || self.agents.iter().flat_map(|found| &found.setups);
        let flag = |scope| if scope == Scope::Project { " --project" } else { "" };
        if let Some(stale) = setups().find(|setup| setup.is_stale()) {
            return format!("milepost agents install {}{}", stale.agent, flag(stale.scope));
        }
        let bare = self.agents.iter().find(|f| {
            f.program.is_some() && f.plugin.is_none() && f.setups.iter().all(|s| !s.is_installed())
        });
        match bare {
            Some(found) => format!("milepost agents install {}", found.agent),
            None => "milepost status".to_owned(),
        }
    }
}
