//! Programs that write files while they are restored.
