//! Bundles and JSON lines: a file is imported, or refused, and nothing else is written.

use super::foreign;
use crate::scratch;

pub(super) fn run(data: &[u8]) {
    let folder = scratch::folder();
    let source = folder.path().join("run.jsonl");
    assert!(scratch::write(&source, data));
    foreign::import(folder.path(), &source);
}
