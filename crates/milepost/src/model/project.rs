//! Facts about a project as it is now: its manifest files, its commits and its changed files.

/// The facts from one manifest file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The name of the file.
    pub file: String,
    /// The facts, as key and value.
    pub facts: Vec<(String, String)>,
    /// Why the file could not be read.
    pub error: Option<String>,
}

/// Facts about the project's files as they are now.
#[derive(Debug, Clone, Default)]
pub struct ProjectFacts {
    /// Facts from the project's manifest files.
    pub manifests: Vec<Manifest>,
    /// Commits since the work began, newest first: abbreviated name and subject.
    pub commits: Vec<(String, String)>,
    /// Files that differ from the commit at which the work began.
    pub changes: Vec<FileChange>,
}

/// A file that differs from the commit at which the work began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path relative to the project.
    pub path: String,
    /// `created`, `modified`, `deleted` or `renamed`.
    pub status: &'static str,
    /// The old path of a renamed file.
    pub from: Option<String>,
    /// Whether the change is committed; `None` if that is not known.
    pub is_committed: Option<bool>,
}
