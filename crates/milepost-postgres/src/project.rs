//! The project that a handle is used for: which runs it lists, and under which name its blobs are stored. Builds
//! conditions for statements, and runs none.
//!
//! Blobs are keyed by project, so that a collection in one project cannot remove those of another. A handle without a
//! project stores blobs under the empty name, and reads those of every project. If a commit changes a run of another
//! project than the handle's, its blobs are stored in both projects, because each collection looks only at the runs
//! of its own project.

use milepost::model::RunRecord;

use crate::decode::RunTableRow;
use crate::session::Params;

/// The projects that have blobs. Each is found by one step in the primary key, so that other blobs are not read.
const PROJECTS_WITH_BLOBS: &str = "WITH RECURSIVE p (project) AS ( \
    (SELECT b.project FROM {s}.blob b ORDER BY b.project LIMIT 1) UNION ALL \
    SELECT (SELECT b.project FROM {s}.blob b WHERE b.project > p.project ORDER BY b.project LIMIT 1) FROM p \
    WHERE p.project IS NOT NULL) SELECT p.project FROM p WHERE p.project IS NOT NULL";

/// The project of a handle, or all projects.
pub(crate) struct ProjectScope(Option<String>);

impl ProjectScope {
    /// The column `project` is empty for runs without a project, so an empty id is not the id of a project.
    pub(crate) fn new(id: Option<String>) -> Self {
        Self(id.filter(|id| !id.is_empty()))
    }

    /// The id of the handle's project; `None` if it is used for all projects.
    pub(crate) fn id(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The name under which this handle stores and collects blobs.
    pub(crate) fn of_blobs(&self) -> &str {
        self.id().unwrap_or_default()
    }

    /// The project under which a run is listed after a commit: the one in its record. A record without one belongs
    /// to the project under which the run is already listed, or else to the handle's.
    pub(crate) fn of_run(&self, record: &RunRecord, row: Option<&RunTableRow>) -> String {
        let listed = || row.map(|row| row.project.clone()).filter(|project| !project.is_empty());
        record.project_id().clone().or_else(listed).unwrap_or_else(|| self.of_blobs().to_owned())
    }

    /// Which rows of a table of blobs or roots a read finds. The table's alias is `b`.
    pub(crate) fn readable(&self, params: &mut Params) -> String {
        self.id().map_or_else(|| "true".to_owned(), |id| format!("b.project = {}", params.text(id)))
    }

    /// Which rows of `blob` a read by id finds. Unlike `readable`, it lets the server use the primary key, which
    /// starts with the project. The table's alias is `b`.
    pub(crate) fn readable_by_id(&self, params: &mut Params) -> String {
        match self.id() {
            Some(_) => self.readable(params),
            None => format!("b.project = ANY(ARRAY({PROJECTS_WITH_BLOBS}))"),
        }
    }
}
