//! Faults at every file operation.
