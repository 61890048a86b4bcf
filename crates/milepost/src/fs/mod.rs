//! File access with guarantees that `std::fs` does not give.
//! In: paths and bytes. Out: files written atomically, or read within a size limit. Nothing else in the library writes a
//! whole file or reads one that somebody else may have put there.

pub mod atomic;
pub mod bounded;
pub(crate) mod proc;
