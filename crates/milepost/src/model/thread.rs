//! The position of a checkpoint in a thread of another program, such as a LangGraph thread. That program
//! numbers its checkpoints itself, so stores find and list them by these ids.

use super::BlobId;
use super::json::record;

record! {
    /// The position of a checkpoint in a thread. The run that contains the checkpoint is the thread.
    pub struct ThreadPosition {
        /// The id that the program gave the checkpoint. Within a namespace, ids sort in the order of the
        /// checkpoints: the greatest one is the newest. Compared byte by byte.
        id: String [required],
        /// The id of the program's invocation that created the checkpoint, if the program has one.
        invocation: Option<String> [optional],
        /// The namespace of the ids within the thread, such as a subgraph; empty for the main one.
        namespace: String [required],
        /// The id of the checkpoint that this one follows, in the same namespace.
        parent: Option<String> [optional],
        /// The blob that lists the values of the checkpoint.
        values: BlobId [required],
    }
}

/// Maximum length in bytes of an id and of an invocation. Stores use them as keys.
pub const THREAD_ID_LIMIT: usize = 256;
/// Maximum length in bytes of a namespace.
pub const NAMESPACE_LIMIT: usize = 1024;

impl ThreadPosition {
    /// The position of a checkpoint without a parent, created by no particular invocation.
    pub fn new(namespace: impl Into<String>, id: impl Into<String>, values: BlobId) -> Self {
        Self {
            id: id.into(),
            invocation: None,
            namespace: namespace.into(),
            parent: None,
            values,
            extra: super::RawObject::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let mut position = ThreadPosition::new("child:1", "1ef4", BlobId::of(b"x"));
        position.parent = Some("1ef3".into());
        let text = serde_json::to_string(&position).unwrap();
        let expected = format!(
            r#"{{"id":"1ef4","invocation":null,"namespace":"child:1","parent":"1ef3","values":"{}"}}"#,
            BlobId::of(b"x")
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<ThreadPosition>(&text).unwrap(), position);
    }
}
