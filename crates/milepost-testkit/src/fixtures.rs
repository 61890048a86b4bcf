//! Checkpoints, records, items and events for tests. Takes a run and a label, and returns bodies and sealed
//! documents. The same label gives the same id and the same bytes: must not use random ids or the clock.

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

use milepost::internal::model::JsonPath;
use milepost::internal::seal::{Unsealed, seal};
use milepost::model::{
    AttachedValue, Attachment, Body, CheckpointId, Event, EventType, Item, LogLine, Marks, Message, Profile,
    RawJson, RawObject, RunId, RunRecord, Source, Status, ThreadPosition,
};
use milepost::store::Sealed;
use milepost::store::{RunView, Slot};

/// A fixed time plus `seconds`.
pub fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

/// The run of this name.
pub fn run_id(name: &str) -> RunId {
    name.parse().unwrap()
}

/// Builder of one checkpoint. Values that are not set get simple defaults.
#[derive(Debug, Clone)]
pub struct TestCheckpoint {
    run: RunId,
    id: CheckpointId,
    state: Option<String>,
    status: Status,
    source: Source,
    imported: Option<String>,
    seconds: i64,
    thread: Option<ThreadPosition>,
}

impl TestCheckpoint {
    /// A checkpoint of `run`. Its id consists of the run's id and `label`, so it is unique in a store.
    pub fn new(run: &RunId, label: impl std::fmt::Display) -> Self {
        Self {
            run: run.clone(),
            id: format!("cp_{run}_{label}").parse().unwrap(),
            state: None,
            status: Status::InProgress,
            source: Source::Manual,
            imported: None,
            seconds: 0,
            thread: None,
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = id.parse().unwrap();
        self
    }

    /// Sets the state to a text, stored as a JSON string.
    #[must_use]
    pub fn state(mut self, text: impl Into<String>) -> Self {
        self.state = Some(text.into());
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Sets the source.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets the foreign id of an imported checkpoint.
    #[must_use]
    pub fn imported(mut self, id: &str) -> Self {
        self.imported = Some(id.to_owned());
        self
    }

    /// Sets the creation time, in seconds after the fixed start. May be negative.
    #[must_use]
    pub fn made_at(mut self, seconds: i64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Sets the position in a thread.
    #[must_use]
    pub fn thread(mut self, position: ThreadPosition) -> Self {
        self.thread = Some(position);
        self
    }

    /// The id of the checkpoint.
    pub fn snapshot_id(&self) -> &CheckpointId {
        &self.id
    }

    /// The body of the checkpoint.
    pub fn body(&self) -> Body {
        let metadata = self.imported.as_ref().map(|id| {
            let text = format!("{{\"imported\": {{\"id\": {}}}}}", RawJson::of(id).unwrap().get());
            RawJson::parse(text).unwrap()
        });
        Body {
            elapsed_ms: 5,
            metadata,
            source: self.source,
            source_details: vec![self.source.to_string()],
            state: self.state.as_ref().map(|text| RawJson::of(text).unwrap()),
            status: self.status,
            thread: self.thread.clone(),
            task_summary: Some("tä\u{0}sk \u{1F600}".into()),
            extra: RawObject::parse("{\"zeta\":9007199254740993,\"Alpha\":-0.0}", &JsonPath::Root).unwrap(),
            ..Body::new(&self.run, &self.id, at(self.seconds)).unwrap()
        }
    }

    /// The sealed document in `slot`.
    pub fn seal(&self, slot: &Slot) -> Sealed {
        let unsealed = Unsealed::new(self.body(), self.state.is_some()).unwrap();
        seal(unsealed, slot).unwrap()
    }
}

/// A position in a thread with a parent and a blob of values that is not stored.
pub fn position(namespace: &str, id: &str) -> ThreadPosition {
    let mut position = ThreadPosition::new(namespace, id);
    position.parent = Some(format!("before {id}"));
    position
}

/// A record for the next write: the view's record or a new one, with `attempts` increased by one.
pub fn next_record(run: &RunId, view: &RunView) -> RunRecord {
    let record = view.record.clone().unwrap_or_else(|| RunRecord::new(run.clone(), Profile::Run, at(0)));
    set_member(&record, "attempts", &(record.attempts() + 1).to_string())
}

/// A copy of a record with one member set to a JSON value. All other members keep their exact text.
pub fn set_member(record: &RunRecord, name: &str, json: &str) -> RunRecord {
    let text = serde_json::to_string(record).unwrap();
    let mut members: BTreeMap<String, RawJson> = serde_json::from_str(&text).unwrap();
    members.insert(name.to_owned(), RawJson::parse(json).unwrap());
    serde_json::from_str(&serde_json::to_string(&members).unwrap()).unwrap()
}

/// Marks of this revision with these tags.
pub fn tagged(revision: u64, tags: &[&str]) -> Marks {
    Marks { revision, tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..Marks::default() }
}

/// A pending item with this text.
pub fn item(text: impl Into<String>) -> Item {
    Item::Note(LogLine { at: at(1), text: text.into(), extra: RawObject::default() })
}

/// A message with this text.
pub fn message(text: &str) -> Message {
    Message::Prompt { at: at(1), text: text.to_owned() }
}

/// An attachment of `checkpoint` by `task`, whose value is a text.
pub fn attachment(checkpoint: &str, task: &str, index: i64, value: &str) -> Attachment {
    let value = AttachedValue::Bytes(value.as_bytes().to_vec());
    Attachment::new(checkpoint, task, index, "channel", "bytes", value)
}

/// An event that contains `number`.
pub fn event(run: &RunId, number: u64) -> Event {
    Event {
        at: at(i64::try_from(number).unwrap()),
        kind: EventType::CheckpointCreated,
        run_id: run.clone(),
        snapshot_id: None,
        data: RawJson::parse(format!("{{\"number\": {number}, \"é\":1.0}}")).unwrap(),
    }
}
