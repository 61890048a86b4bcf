//! What is seen of the workspace: the only room that reads it.

pub mod distance;
mod manifest;

pub use manifest::manifests;
