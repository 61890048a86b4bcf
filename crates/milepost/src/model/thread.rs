//! The position of a checkpoint in a thread of another program, such as a LangGraph thread. That program
//! numbers its checkpoints itself, so stores find and list them by these ids.

use super::json::record;

record! {
    /// The position of a checkpoint in a thread. The run that contains the checkpoint is the thread.
    pub struct ThreadPosition {
        /// Number of blobs that the values of the checkpoint refer to.
        chunks: u64 [required],
        /// The id that the program gave the checkpoint. Within a namespace, ids sort in the order of the
        /// checkpoints: the greatest one is the newest. Compared byte by byte.
        id: String [required],
        /// The id of the program's invocation that created the checkpoint, if the program has one.
        invocation: Option<String> [optional],
        /// The namespace of the ids within the thread, such as a subgraph; empty for the main one.
        namespace: String [required],
        /// The id of the checkpoint that this one follows, in the same namespace.
        parent: Option<String> [optional],
    }
}

/// Maximum length in bytes of an id and of an invocation. Stores use them as keys.
pub const THREAD_ID_LIMIT: usize = 256;
/// Maximum length in bytes of a namespace.
pub const NAMESPACE_LIMIT: usize = 1024;

impl ThreadPosition {
    /// The position of a checkpoint without a parent, created by no particular invocation, whose values refer to no blob.
    pub fn new(namespace: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            chunks: 0,
            id: id.into(),
            invocation: None,
            namespace: namespace.into(),
            parent: None,
            extra: super::RawObject::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let mut position = ThreadPosition::new("child:1", "1ef4");
        position.parent = Some("1ef3".into());
        let text = serde_json::to_string(&position).unwrap();
        let expected = r#"{"chunks":0,"id":"1ef4","invocation":null,"namespace":"child:1","parent":"1ef3"}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<ThreadPosition>(&text).unwrap(), position);
    }
}
