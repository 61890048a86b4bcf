//! Threads: checkpoints of a program that keeps its state as named values, such as LangGraph. Splits values into
//! chunks, encodes the table of a checkpoint's values, and encrypts both if there is a key. Pure: takes values and
//! returns the contents of blobs, and back. Must not read a store.

#[cfg(feature = "threads")]
mod chunks;
#[cfg(feature = "threads")]
mod encryption;
pub(crate) mod table;
#[cfg(feature = "threads")]
mod types;

#[cfg(feature = "threads")]
pub use chunks::SplitValue;
#[cfg(feature = "threads")]
pub use encryption::ThreadKey;
#[cfg(feature = "threads")]
pub(crate) use table::{EncodedValues, ValueReader, encode};
#[cfg(feature = "threads")]
pub use types::{NewThreadCheckpoint, ThreadWrite, TypedValue};
