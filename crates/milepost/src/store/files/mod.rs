//! The file layout.
