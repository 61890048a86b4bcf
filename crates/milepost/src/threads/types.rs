//! The plain types of threads: values, checkpoints to save, and the writes of tasks.

use derive_getters::Getters;

/// A serialised value and the name of its encoding.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct TypedValue {
    /// The name of the encoding, such as `msgpack`.
    pub(crate) type_tag: String,
    /// The serialised value.
    pub(crate) bytes: Vec<u8>,
}

impl TypedValue {
    /// A value in this encoding.
    pub fn new(type_tag: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { type_tag: type_tag.into(), bytes: bytes.into() }
    }

    /// The encoding and the serialised value.
    pub fn into_parts(self) -> (String, Vec<u8>) {
        (self.type_tag, self.bytes)
    }
}

options! {
    /// A checkpoint of a thread to save.
    #[derive(Debug, Clone)]
    pub struct NewThreadCheckpoint {
        /// The id of the thread: any text that is not empty.
        pub(crate) thread: String,
        /// The namespace within the thread; empty for the main one.
        pub(crate) namespace: String,
        /// The id of the checkpoint. Within a namespace, the greatest id is the newest checkpoint.
        pub(crate) id: String,
        /// The id of the checkpoint that this one follows.
        pub(crate) parent: Option<String>,
        /// The id of the program's invocation that creates the checkpoint.
        pub(crate) invocation: Option<String>,
        /// The checkpoint without its values.
        pub(crate) checkpoint: TypedValue,
        /// The metadata of the checkpoint.
        pub(crate) metadata: TypedValue,
        /// The values, by name.
        pub(crate) values: Vec<(String, TypedValue)>,
        /// Names of values that are not in this checkpoint, but are computed from an ancestor's value and the writes
        /// since. `prune` keeps the ancestors that they need.
        pub(crate) derived: Vec<String>,
        /// What the checkpoint is, for people.
        pub(crate) summary: Option<String>,
    }
}

impl NewThreadCheckpoint {
    /// A checkpoint in the main namespace, without values.
    pub fn new(
        thread: impl Into<String>,
        id: impl Into<String>,
        checkpoint: TypedValue,
        metadata: TypedValue,
    ) -> Self {
        Self {
            thread: thread.into(),
            namespace: String::new(),
            id: id.into(),
            parent: None,
            invocation: None,
            checkpoint,
            metadata,
            values: Vec::new(),
            derived: Vec::new(),
            summary: None,
        }
    }
}

/// A value that a task wrote, for the checkpoint after the one that it belongs to.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct ThreadWrite {
    /// The path of the task. Writes are sorted by path, task and index.
    pub(crate) task_path: String,
    /// The id of the task.
    pub(crate) task_id: String,
    /// The position of the value among those of the task. Special values have negative positions.
    #[getter(copy)]
    pub(crate) index: i64,
    /// The name of the value that was written to.
    pub(crate) channel: String,
    /// The value.
    pub(crate) value: TypedValue,
}

impl ThreadWrite {
    /// A value that a task wrote.
    pub fn new(
        task_path: impl Into<String>,
        task_id: impl Into<String>,
        index: i64,
        channel: impl Into<String>,
        value: TypedValue,
    ) -> Self {
        Self { task_path: task_path.into(), task_id: task_id.into(), index, channel: channel.into(), value }
    }
}
