//! The result of `status --all`: the runs of all projects in groups, each with the command to type next.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use milepost::internal::brief::is_unsafe;
use milepost::internal::engine::{AssessedRun, RunGroups, RunState};
use milepost::model::RunRecord;
use serde::Serialize;

use super::format::{self, ago, bold, clean, dim};
use super::status::StatusRow;
use super::table::{Column, Table, cell, run, state};
use super::{Document, Note, Output};
use crate::context::{KnownProject, ProjectError};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum number of runs that are shown in a group.
const SHOWN: usize = 15;
/// How old an open run may be to be shown.
const OPEN_DAYS: i64 = 7;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.status_all/1")]
pub(crate) struct AllStatusDocument {
    projects: Vec<ProjectDocument>,
    /// Runs that stopped before their work was done, the newest interruption first.
    interrupted: Vec<ProjectRun>,
    live: Vec<ProjectRun>,
    /// Runs whose agent waits for the user.
    waiting: Vec<ProjectRun>,
    /// Runs without an owner that have not ended, from the last seven days.
    open: Vec<ProjectRun>,
    finished_today: Vec<ProjectRun>,
    /// Stores that could not be read, or not completely.
    unreadable: Vec<UnreadableProject>,
    #[serde(skip)]
    home: Option<PathBuf>,
    #[serde(skip)]
    now: Timestamp,
}

/// A project and its store.
#[derive(Serialize)]
struct ProjectDocument {
    root: String,
    store: String,
    runs: u64,
    #[serde(skip)]
    #[cfg_attr(not(feature = "ui"), allow(dead_code, reason = "only the page uses it"))]
    key: String,
}

/// A project whose store could not be read completely.
#[derive(Serialize)]
pub(super) struct UnreadableProject {
    pub(super) root: String,
    store: String,
    pub(super) message: String,
}

impl From<ProjectError> for UnreadableProject {
    fn from(failed: ProjectError) -> Self {
        Self {
            root: failed.project.root.to_string_lossy().into_owned(),
            store: failed.project.store,
            message: failed.message,
        }
    }
}

/// A run, its project, and the command to type next.
#[derive(Serialize)]
struct ProjectRun {
    project: String,
    #[serde(flatten)]
    row: StatusRow,
    next: String,
    #[serde(skip)]
    updated_at: Option<Timestamp>,
    #[serde(skip)]
    folder: String,
    /// Identifies the project on the page.
    #[serde(skip)]
    #[cfg_attr(not(feature = "ui"), allow(dead_code, reason = "only the page uses it"))]
    key: String,
}

impl ProjectRun {
    fn new(project: &KnownProject, run: AssessedRun) -> Self {
        let updated_at = run.summary.intact().map(RunRecord::updated_at);
        let (is_damaged, id) = (run.decision.is_none(), run.summary.run_id().clone());
        let may_continue = run.decision.is_some_and(|decision| decision.run_state == RunState::Stopped);
        let verb = match (is_damaged, may_continue) {
            (true, _) => "doctor".to_owned(),
            (_, true) => format!("resume {id}"),
            _ => format!("runs {id}"),
        };
        let folder = project.root.to_string_lossy().into_owned();
        let next = format!("milepost -C {} {verb}", shell_quote(&folder));
        Self {
            project: folder.clone(),
            row: StatusRow::new(run),
            next,
            updated_at,
            folder,
            key: project.key.clone(),
        }
    }
}

#[cfg(feature = "ui")]
impl ProjectRun {
    fn for_page(&self) -> milepost_ui::OverviewRun {
        milepost_ui::OverviewRun {
            project: self.key.clone(),
            root: self.folder.clone(),
            run: self.row.summary.run_id().to_string(),
            state: self.row.standing,
            why: self.row.why.clone(),
            about: self.row.about.clone().unwrap_or_default(),
            updated_at: self.updated_at,
            next: self.next.clone(),
        }
    }
}

#[cfg(feature = "ui")]
impl ProjectDocument {
    fn for_page(&self) -> milepost_ui::ProjectSummary {
        milepost_ui::ProjectSummary {
            key: self.key.clone(),
            root: self.root.clone(),
            store: self.store.clone(),
            runs: self.runs,
        }
    }
}

/// A path as a shell reads it. Control characters and invisible ones are escaped, so that the path can be displayed and
/// pasted.
pub(crate) fn shell_quote(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%:,".contains(c);
    if path.chars().all(is_plain) {
        return path.to_owned();
    }
    if !path.contains(is_unsafe) {
        return format!("'{}'", path.replace('\'', "'\\''"));
    }
    let mut quoted = String::from("$'");
    for c in path.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_unsafe(c) => {
                // Octal, because a shell could read a letter after `\x` as another digit.
                let bytes = c.to_string().into_bytes();
                quoted.extend(bytes.into_iter().map(|byte| format!("\\{byte:03o}")));
            }
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

/// The root of a project for people: below the home folder, it starts with `~`.
pub(super) fn shown_root(root: &str, home: Option<&Path>) -> String {
    let below = home.and_then(|home| Path::new(root).strip_prefix(home).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => root.to_owned(),
    }
}

impl AllStatusDocument {
    pub(crate) fn new(
        projects: Vec<(KnownProject, RunGroups)>,
        failed: Vec<ProjectError>,
        home: Option<PathBuf>,
        now: Timestamp,
    ) -> Self {
        let mut document = Self {
            projects: Vec::new(),
            interrupted: Vec::new(),
            live: Vec::new(),
            waiting: Vec::new(),
            open: Vec::new(),
            finished_today: Vec::new(),
            unreadable: Vec::new(),
            home,
            now,
        };
        for (project, groups) in projects {
            document.add(&project, groups);
        }
        document.unreadable = failed.into_iter().map(UnreadableProject::from).collect();
        document.projects.sort_by(|a, b| a.root.cmp(&b.root));
        for group in [
            &mut document.interrupted,
            &mut document.live,
            &mut document.waiting,
            &mut document.open,
            &mut document.finished_today,
        ] {
            // Newest first. A damaged run has no time and comes first.
            group.sort_by_key(|run| (run.updated_at.is_some(), std::cmp::Reverse(run.updated_at)));
        }
        document
    }

    fn add(&mut self, project: &KnownProject, groups: RunGroups) {
        let RunGroups { live, open, stopped, ended, .. } = groups;
        let runs = live.len() + open.len() + stopped.len() + ended.len();
        let document = ProjectDocument {
            root: project.root.to_string_lossy().into_owned(),
            store: project.store.clone(),
            runs: runs as u64,
            key: project.key.clone(),
        };
        self.projects.push(document);
        let is_waiting =
            |run: &AssessedRun| run.decision.is_some_and(|decision| decision.run_state == RunState::Waiting);
        let updated = |run: &AssessedRun| run.summary.intact().map(RunRecord::updated_at);
        let hours = |run: &AssessedRun| updated(run).map(|at| self.now.duration_since(at).as_hours());
        let ended_today = |run: &AssessedRun| {
            run.claimed_by.is_none() && updated(run).is_some_and(|at| is_today(at, self.now))
        };
        let is_recent = |run: &AssessedRun| hours(run).is_some_and(|hours| hours < OPEN_DAYS * 24);
        let (open, ended): (Vec<_>, Vec<_>) =
            (open.into_iter().filter(is_recent).collect(), ended.into_iter().filter(ended_today).collect());
        let (waiting, live): (Vec<_>, Vec<_>) = live.into_iter().partition(is_waiting);
        for (group, runs) in [
            (&mut self.interrupted, stopped),
            (&mut self.live, live),
            (&mut self.waiting, waiting),
            (&mut self.open, open),
            (&mut self.finished_today, ended),
        ] {
            group.extend(runs.into_iter().map(|run| ProjectRun::new(project, run)));
        }
    }

    /// The same for the page.
    #[cfg(feature = "ui")]
    pub(crate) fn into_overview(self) -> milepost_ui::Overview {
        let groups = self.groups().into_iter().filter(|(_, runs)| !runs.is_empty());
        let groups = groups.map(|(name, runs)| milepost_ui::OverviewGroup {
            name,
            runs: runs.iter().map(ProjectRun::for_page).collect(),
        });
        milepost_ui::Overview {
            groups: groups.collect(),
            projects: self.projects.iter().map(ProjectDocument::for_page).collect(),
            unreadable: self
                .unreadable
                .iter()
                .map(|one| milepost_ui::UnreadableProject {
                    root: one.root.clone(),
                    message: one.message.clone(),
                })
                .collect(),
        }
    }

    fn groups(&self) -> [(&'static str, &[ProjectRun]); 5] {
        [
            ("Interrupted", &self.interrupted),
            ("Live", &self.live),
            ("Waiting for you", &self.waiting),
            ("Open", &self.open),
            ("Finished today", &self.finished_today),
        ]
    }

    fn group_lines(&self, name: &str, runs: &[ProjectRun], output: &Output) -> String {
        let limit = if output.is_verbose() { usize::MAX } else { SHOWN };
        let mut table = Table::new(
            output,
            &[
                Column::text("PROJECT", 10),
                Column::text("RUN", 12),
                Column::new("STATE"),
                Column::text("WHY", 10).optional(1),
                Column::new("WHEN"),
                Column::text("ABOUT", 16),
            ],
        );
        for one in runs.iter().take(limit) {
            let when = one.updated_at.map_or_else(String::new, |at| ago(at, self.now));
            let name = one.folder.rsplit('/').next().unwrap_or_default();
            table.add_row([
                cell(name),
                run(one.row.summary.run_id()),
                state(one.row.standing),
                cell(one.row.why.as_str()),
                cell(when),
                cell(one.row.about.as_deref().unwrap_or_default()),
            ]);
        }
        let mut text = format!("{} ({})\n{}", bold(name), format::count(runs.len() as u64), table.lines());
        if runs.len() > limit {
            let more = format::count((runs.len() - limit) as u64);
            let _ = writeln!(text, "{}", dim(&format!("and {more} more (-v shows all)")));
        }
        text
    }

    /// The commands to type for the runs that need someone, one per line.
    fn next_lines(&self) -> String {
        let mut text = String::new();
        for one in self.interrupted.iter().take(SHOWN) {
            let short = one.next.replacen(
                &format!("-C {}", shell_quote(&one.folder)),
                &format!("-C {}", shown_root(&shell_quote(&one.folder), self.home.as_deref())),
                1,
            );
            let _ = writeln!(text, "  {}", clean(&short));
        }
        text
    }
}

/// Whether a time is on the current day in the local time zone.
fn is_today(at: Timestamp, now: Timestamp) -> bool {
    let day = |at: Timestamp| at.to_zoned(jiff::tz::TimeZone::system()).date();
    day(at) == day(now)
}

impl Document for AllStatusDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.projects.is_empty() && self.unreadable.is_empty() {
            let text = "No projects yet. `milepost init` in a project, or its first save, adds it here.\n";
            return output.write_text(text);
        }
        let mut text = String::new();
        for (name, runs) in self.groups().into_iter().filter(|(_, runs)| !runs.is_empty()) {
            text.push_str(&self.group_lines(name, runs, output));
            text.push('\n');
        }
        let projects = format::counted(self.projects.len() as u64, "project");
        if text.is_empty() {
            let _ =
                writeln!(text, "Nothing is running or interrupted in {projects}, and nothing ended today.");
        } else {
            let _ = writeln!(text, "{projects}");
        }
        let next = self.next_lines();
        if !next.is_empty() {
            let _ = write!(text, "\n{}\n{next}", bold("To continue an interrupted run:"));
        }
        output.write_text(&text)
    }

    fn notes(&self) -> Vec<Note> {
        let line = |one: &UnreadableProject| {
            Note::Message(format!("Warning: {} is not shown completely: {}", one.root, one.message))
        };
        self.unreadable.iter().map(line).collect()
    }

    fn error(&self) -> Option<CommandError> {
        (!self.unreadable.is_empty()).then_some(CommandError::ExitOnly(Exit::Partly))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_paths_are_read_by_a_shell() {
        assert_eq!(shell_quote("/home/me/app"), "/home/me/app");
        assert_eq!(shell_quote("/a b/it's"), "'/a b/it'\\''s'");
        let hostile = "/a\u{1b}[201~'; touch x\n\u{202e}\\";
        let quoted = shell_quote(hostile);
        assert!(!quoted.contains(is_unsafe), "{quoted}");
        let shell = std::process::Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output();
        assert_eq!(String::from_utf8(shell.unwrap().stdout).unwrap(), hostile);
    }
}
