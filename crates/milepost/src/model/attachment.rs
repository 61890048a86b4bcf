//! Attachments: values that a caller attaches to a checkpoint after it was saved, or before it is, such as the
//! pending writes of a LangGraph task. They are not part of the sealed document.

use data_encoding::BASE64;
use derive_getters::Getters;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::BlobId;

/// A value that belongs to a checkpoint of a run without being part of it.
///
/// The key within the run consists of the checkpoint, the task and the index. The checkpoint is named by a text
/// that does not have to be the id of an existing checkpoint: an attachment may precede its checkpoint, or name
/// one that another tool generated.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The checkpoint that the value belongs to.
    checkpoint: String,
    /// The id of the task that wrote the value.
    task_id: String,
    /// The position of the value among those of the task. Special values may have negative positions.
    #[getter(copy)]
    index: i64,
    /// The path of the task, which comes first in the order of attachments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    task_path: String,
    /// The name of the channel that the value was written to.
    channel: String,
    /// The name of the value's encoding.
    #[serde(rename = "type")]
    type_tag: String,
    /// The value.
    #[serde(flatten)]
    value: AttachedValue,
    /// Whether this attachment replaces an existing one with the same key. Otherwise the existing one stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[getter(copy)]
    replace: bool,
}

/// The value of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachedValue {
    /// The value itself, at most 1 MiB. Written as base64 in JSON.
    #[serde(rename = "value", serialize_with = "to_base64", deserialize_with = "from_base64")]
    Bytes(Vec<u8>),
    /// A blob that contains the value. The commit must name it in `Commit::blobs`.
    Blob(BlobId),
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64.decode(text.as_bytes()).map_err(D::Error::custom)
}

impl Attachment {
    /// An attachment of a checkpoint by a task, with an empty task path. An existing one with the same key stays.
    pub fn new(
        checkpoint: impl Into<String>,
        task_id: impl Into<String>,
        index: i64,
        channel: impl Into<String>,
        type_tag: impl Into<String>,
        value: AttachedValue,
    ) -> Self {
        Self {
            checkpoint: checkpoint.into(),
            task_id: task_id.into(),
            index,
            task_path: String::new(),
            channel: channel.into(),
            type_tag: type_tag.into(),
            value,
            replace: false,
        }
    }

    /// Sets the path of the task.
    #[must_use]
    pub fn with_task_path(self, task_path: impl Into<String>) -> Self {
        Self { task_path: task_path.into(), ..self }
    }

    /// Makes the attachment replace an existing one with the same key.
    #[must_use]
    pub fn replacing(self) -> Self {
        Self { replace: true, ..self }
    }

    /// The blob that contains the value, if it is not in the attachment itself.
    pub fn blob(&self) -> Option<&BlobId> {
        match &self.value {
            AttachedValue::Blob(id) => Some(id),
            AttachedValue::Bytes(_) => None,
        }
    }

    /// The key by which stores sort attachments: first by the checkpoint, then as the trait requires.
    pub fn sort_key(&self) -> (&str, &str, &str, i64) {
        (&self.checkpoint, &self.task_path, &self.task_id, self.index)
    }

    /// The texts of the attachment.
    pub(crate) fn texts(&self) -> [&str; 5] {
        [&self.checkpoint, &self.task_id, &self.task_path, &self.channel, &self.type_tag]
    }

    /// The approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let value = match &self.value {
            AttachedValue::Bytes(bytes) => bytes.len(),
            AttachedValue::Blob(_) => 64,
        };
        // The numbers and the names of the members.
        const REST: usize = 128;
        self.texts().iter().map(|text| text.len()).sum::<usize>() + value + REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(bytes: usize) -> Attachment {
        Attachment::new("cp", "task", -1, "channel", "msgpack", AttachedValue::Bytes(vec![7; bytes]))
    }

    #[test]
    fn json_contains_base64_or_a_blob_id() {
        let text = serde_json::to_string(&attachment(2)).unwrap();
        assert_eq!(
            text,
            r#"{"checkpoint":"cp","task_id":"task","index":-1,"channel":"channel","type":"msgpack","value":"Bwc="}"#
        );
        assert_eq!(serde_json::from_str::<Attachment>(&text).unwrap(), attachment(2));
        let blob = Attachment { value: AttachedValue::Blob(BlobId::of(b"x")), ..attachment(0) };
        let blob = blob.with_task_path("path").replacing();
        let text = serde_json::to_string(&blob).unwrap();
        assert!(text.ends_with(&format!(r#""blob":"{}","replace":true}}"#, BlobId::of(b"x"))), "{text}");
        assert_eq!(serde_json::from_str::<Attachment>(&text).unwrap(), blob);
    }
}
