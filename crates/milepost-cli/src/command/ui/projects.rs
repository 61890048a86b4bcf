//! The projects of the page: those that this user created or trusted, and the current one. Stores stay open for a
//! short time, so that a page that is updated live does not open its store again and again.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use milepost::{SearchQuery, SearchResults};
use milepost_ui::{Overview, Project, ProjectSummary, Projects, UnreadableProject};

use crate::cli::Global;
use crate::command::status::status_of_all;
use crate::config::Config;
use crate::context::{Audience, Context, KnownProject, OpenedProject};
use crate::present::Output;
use crate::present::status_all::shell_quote;

/// How long a store stays open. Then the settings and the trust are read again.
const OPEN_TIME: Duration = Duration::from_secs(30);
/// Maximum number of stores that are open at the same time.
const MAX_OPEN: usize = 12;

/// Opens projects for the page.
pub(super) struct PageProjects {
    global: Global,
    open: Mutex<Vec<(Instant, Arc<Project>)>>,
}

impl PageProjects {
    pub(super) fn new(global: &Global) -> Self {
        // The command has already changed to the folder that -C names.
        Self { global: Global { directory: None, ..global.clone() }, open: Mutex::default() }
    }

    /// Calls `work` with a context that was read just now.
    fn with_context<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> Result<T, String> {
        let config = Config::load(&self.global).map_err(|e| e.to_string())?;
        let output = Output::collecting();
        Ok(work(&Context::for_audience(config, &output, Audience::Page)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Arc<Project>)>> {
        self.open.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Projects for PageProjects {
    fn overview(&self) -> Overview {
        let overview = self.with_context(|context| {
            let mut overview = status_of_all(context).into_overview();
            if let Some(current) = context.unrecorded_project() {
                overview.projects.push(current);
            }
            overview
        });
        // A configuration that is not valid is reported on the page.
        overview.unwrap_or_else(|message| {
            let unreadable = vec![UnreadableProject { root: "milepost".to_owned(), message }];
            Overview { unreadable, ..Overview::default() }
        })
    }

    fn search(&self, query: &SearchQuery) -> (Vec<(ProjectSummary, SearchResults)>, Vec<UnreadableProject>) {
        let unreadable = |root: &Path, message: String| UnreadableProject {
            root: root.to_string_lossy().into_owned(),
            message,
        };
        let searched = self.with_context(|context| context.read_projects(|_, _, mp| Ok(mp.search(query)?)));
        let (found, failed) = match searched {
            Ok(searched) => searched,
            Err(message) => return (Vec::new(), vec![unreadable(Path::new("milepost"), message)]),
        };
        let found = found.into_iter().map(|(project, results)| (summary(&project), results));
        let failed = failed.into_iter().map(|failed| unreadable(&failed.project.root, failed.message));
        (found.collect(), failed.collect())
    }

    fn open(&self, key: &str) -> Result<Option<Arc<Project>>, String> {
        let mut open = self.lock();
        open.retain(|(since, _)| since.elapsed() < OPEN_TIME);
        if let Some((_, project)) = open.iter().find(|(_, project)| project.key == key) {
            return Ok(Some(Arc::clone(project)));
        }
        drop(open);
        let opened = self.with_context(|context| context.open_project(key).map(|found| found.map(to_page)));
        let Some(project) = opened?.map_err(|e| e.to_string())? else { return Ok(None) };
        let project = Arc::new(project);
        let mut open = self.lock();
        if open.len() >= MAX_OPEN {
            open.remove(0);
        }
        open.push((Instant::now(), Arc::clone(&project)));
        Ok(Some(project))
    }
}

/// A project that was searched.
fn summary(project: &KnownProject) -> ProjectSummary {
    ProjectSummary {
        key: project.key.clone(),
        root: project.root.to_string_lossy().into_owned(),
        store: project.store.clone(),
        runs: 0,
    }
}

fn to_page(opened: OpenedProject) -> Project {
    let root = opened.root.to_string_lossy();
    let name =
        opened.root.file_name().map_or_else(|| root.to_string(), |name| name.to_string_lossy().into_owned());
    Project {
        key: opened.key,
        name,
        command: format!("milepost -C {}", shell_quote(&root)),
        store: opened.store,
        milepost: opened.milepost,
        allow: opened.allow,
        hides_foreign_runs: opened.hides_foreign_runs,
        untrusted: opened.untrusted,
        root: opened.root,
    }
}
