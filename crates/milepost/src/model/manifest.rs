//! Facts from a manifest file of the project: language, package manager and test command.

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
