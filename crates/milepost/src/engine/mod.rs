//! The only orchestration: one file a verb.
