//! What a manifest file of the project says: its language, what installs its packages, how it is tested.

/// One manifest file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub file: String,
    /// What it says, by key.
    pub facts: Vec<(String, String)>,
    /// Why it says nothing.
    pub error: Option<String>,
}
