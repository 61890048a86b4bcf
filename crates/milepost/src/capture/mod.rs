//! What is seen of the workspace: the only room that reads it.

mod manifest;

pub use manifest::manifests;
