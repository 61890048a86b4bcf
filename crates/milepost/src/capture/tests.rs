//! Tests of looking, on real folders and a real git.
