//! The database of another tool: any bytes are read as its runs, or refused. The file is never changed.

use super::foreign;
use crate::scratch;

pub(super) fn run(data: &[u8]) {
    let folder = scratch::folder();
    let source = folder.path().join("checkpoints.db");
    assert!(scratch::write(&source, data));
    foreign::import(folder.path(), &source);
}
