//! Reads of runs, headers, documents and events. Each answer comes from one statement where it must be
//! consistent, and can be read again on another connection. Writes nothing.

pub(crate) mod body;
pub(crate) mod events;
pub(crate) mod headers;
mod newest;
pub(crate) mod runs;
mod thread_positions;
