//! The table of a checkpoint's values, which is part of its document: contains the small values, and lists the chunks
//! of the others. The list of chunks is readable without the key of an encrypted table, so that every program can
//! copy, verify and collect the blobs of a thread.

#[cfg(feature = "threads")]
use std::collections::{BTreeMap, HashMap};
#[cfg(feature = "threads")]
use std::sync::Arc;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

#[cfg(feature = "threads")]
use super::chunks::{self, SplitValue};
#[cfg(feature = "threads")]
use super::{NewThreadCheckpoint, ThreadKey, TypedValue};
use crate::model::BlobId;
#[cfg(feature = "threads")]
use crate::model::RawJson;

/// The format of tables that this program writes.
const FORMAT: u64 = 1;
/// A value of at most this many bytes is in the table itself.
#[cfg(feature = "threads")]
const SMALL: usize = 8192;

/// The table, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Table {
    /// The format of the table.
    format: u64,
    /// The chunks of all values, each listed once.
    chunks: Vec<BlobId>,
    /// The content; absent if it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Box<serde_json::value::RawValue>>,
    /// The id of the key, if the content is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The encrypted content, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encrypted: Option<String>,
}

/// Parses the table and returns its chunks.
pub fn chunks_of(table: &str) -> Result<Vec<BlobId>, String> {
    parse(table).map(|table| table.chunks)
}

/// The small values in a table that is not encrypted, and the starts of the others.
pub fn small_values(table: &str) -> Vec<Vec<u8>> {
    fn collect(value: &serde_json::Value, found: &mut Vec<Vec<u8>>) {
        let serde_json::Value::Object(members) = value else { return };
        match members.get("start").and_then(serde_json::Value::as_str) {
            Some(start) => found.extend(BASE64.decode(start.as_bytes())),
            None => members.values().for_each(|member| collect(member, found)),
        }
    }
    let content = parse(table).ok().and_then(|table| table.content);
    let content = content.and_then(|content| serde_json::from_str(content.get()).ok());
    let mut found = Vec::new();
    collect(&content.unwrap_or_default(), &mut found);
    found
}

fn parse(table: &str) -> Result<Table, String> {
    let table: Table = serde_json::from_str(table).map_err(|e| e.to_string())?;
    match table.format {
        FORMAT => Ok(table),
        newer => Err(format!("format {newer} is newer than format {FORMAT}, the newest this program reads")),
    }
}

/// The part of a table that is encrypted if there is a key.
#[cfg(feature = "threads")]
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    thread: String,
    checkpoint: StoredValue,
    metadata: StoredValue,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    derived: Vec<String>,
    values: BTreeMap<String, StoredValue>,
}

/// A value in a table.
#[cfg(feature = "threads")]
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredValue {
    #[serde(rename = "type")]
    type_tag: String,
    /// The start of the value, as base64; all of it if there are no chunks.
    start: String,
    /// The rest of the value, as positions in the table's list of chunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<usize>,
}

/// The values of a checkpoint as they are stored.
#[cfg(feature = "threads")]
#[derive(Debug)]
pub struct EncodedValues {
    /// The table.
    pub table: RawJson,
    /// The chunks, each once, as they are stored. Without the bytes of chunks that the earlier version of a value also
    /// has.
    pub chunks: Vec<(BlobId, Option<Vec<u8>>)>,
    /// The values that were split, by name.
    pub split: Vec<(String, SplitValue)>,
}

/// Returns the earlier version of the value with a name, if it is known.
#[cfg(feature = "threads")]
pub type FindEarlier<'a> = dyn Fn(&str) -> Option<Arc<SplitValue>> + 'a;

/// Encodes the values of a checkpoint. `context` is bound to an encrypted table: only the same context decrypts it.
#[cfg(feature = "threads")]
pub fn encode(
    checkpoint: &NewThreadCheckpoint,
    key: Option<&ThreadKey>,
    context: &str,
    earlier: &FindEarlier<'_>,
) -> Result<EncodedValues, String> {
    let mut list = ChunkList { key, positions: HashMap::new(), chunks: Vec::new() };
    let mut split = Vec::new();
    let mut values = BTreeMap::new();
    for (name, value) in &checkpoint.values {
        let earlier = if value.bytes.len() > SMALL { earlier(name) } else { None };
        let (stored, new_split) = list.add(value, earlier.as_deref())?;
        values.insert(name.clone(), stored);
        split.extend(new_split.map(|new_split| (name.clone(), new_split)));
    }
    let content = Content {
        thread: checkpoint.thread.clone(),
        checkpoint: list.add(&checkpoint.checkpoint, None)?.0,
        metadata: list.add(&checkpoint.metadata, None)?.0,
        derived: checkpoint.derived.clone(),
        values,
    };
    let table = seal_content(&content, list.chunks.iter().map(|(id, _)| *id).collect(), key, context)?;
    Ok(EncodedValues { table, chunks: list.chunks, split })
}

#[cfg(feature = "threads")]
fn seal_content(
    content: &Content,
    chunks: Vec<BlobId>,
    key: Option<&ThreadKey>,
    context: &str,
) -> Result<RawJson, String> {
    let text = serde_json::value::to_raw_value(content).map_err(|e| e.to_string())?;
    let table = match key {
        None => Table { format: FORMAT, chunks, content: Some(text), key: None, encrypted: None },
        Some(key) => {
            let bound = associated_data(context, &chunks);
            let encrypted = Some(BASE64.encode(&key.encrypt_table(text.get().as_bytes(), &bound)?));
            Table { format: FORMAT, chunks, content: None, key: Some(key.id()), encrypted }
        }
    };
    RawJson::of(&table).map_err(|e| e.to_string())
}

/// What an encrypted table is bound to, so that it can be neither moved nor given other chunks.
#[cfg(feature = "threads")]
fn associated_data(context: &str, chunks: &[BlobId]) -> Vec<u8> {
    let mut bound = context.len().to_le_bytes().to_vec();
    bound.extend_from_slice(context.as_bytes());
    for chunk in chunks {
        bound.extend_from_slice(chunk.as_bytes());
    }
    bound
}

/// Collects the chunks of several values.
#[cfg(feature = "threads")]
struct ChunkList<'a> {
    key: Option<&'a ThreadKey>,
    positions: HashMap<BlobId, usize>,
    chunks: Vec<(BlobId, Option<Vec<u8>>)>,
}

#[cfg(feature = "threads")]
impl ChunkList<'_> {
    /// Adds a value. If the value is split into chunks, also returns where.
    fn add(
        &mut self,
        value: &TypedValue,
        earlier: Option<&SplitValue>,
    ) -> Result<(StoredValue, Option<SplitValue>), String> {
        let type_tag = value.type_tag.clone();
        if value.bytes.len() <= SMALL {
            let stored = StoredValue { type_tag, start: BASE64.encode(&value.bytes), chunks: Vec::new() };
            return Ok((stored, None));
        }
        let mut ends = earlier.map(|earlier| earlier.shared_with(&value.bytes).to_vec()).unwrap_or_default();
        let mut chunks: Vec<usize> = ends.iter().map(|(_, id)| self.place(*id, None)).collect();
        let mut end = ends.last().map_or(0, |(end, _)| *end);
        for chunk in chunks::split_from(&value.bytes, end) {
            let stored = match self.key {
                None => chunk.to_vec(),
                Some(key) => key.encrypt_chunk(chunk)?,
            };
            let id = BlobId::of(&stored);
            end += chunk.len();
            ends.push((end, id));
            chunks.push(self.place(id, Some(stored)));
        }
        let start = BASE64.encode(&value.bytes[..chunks::HEAD]);
        let split = SplitValue::new(value.bytes.clone(), ends);
        Ok((StoredValue { type_tag, start, chunks }, Some(split)))
    }

    /// The position of a chunk in the list. Adds it if it is new.
    fn place(&mut self, id: BlobId, stored: Option<Vec<u8>>) -> usize {
        let next = self.chunks.len();
        let position = *self.positions.entry(id).or_insert(next);
        if position == next {
            self.chunks.push((id, stored));
        }
        position
    }
}

/// Why a table cannot be read.
#[cfg(feature = "threads")]
#[derive(Debug)]
pub enum TableError {
    /// The content is not a table, or was changed.
    Damaged(String),
    /// It is encrypted with another key, or there is no key.
    WrongKey,
}

/// Reads the values of one checkpoint.
#[cfg(feature = "threads")]
#[derive(Debug)]
pub struct ValueReader {
    content: Content,
    chunks: Vec<BlobId>,
}

/// Reads one chunk, as it is stored.
#[cfg(feature = "threads")]
pub type ReadChunk<'a, E> = dyn FnMut(&BlobId) -> Result<Arc<[u8]>, E> + 'a;

#[cfg(feature = "threads")]
impl ValueReader {
    /// Parses a table, and decrypts it if it is encrypted.
    pub fn open(table: &str, key: Option<&ThreadKey>, context: &str) -> Result<Self, TableError> {
        let damaged = |why: serde_json::Error| TableError::Damaged(why.to_string());
        let Table { chunks, content, key: key_id, encrypted, .. } =
            parse(table).map_err(TableError::Damaged)?;
        let content = match (content, encrypted) {
            // With a key, a table that is not encrypted was not written with it.
            (Some(_), None) if key.is_some() => return Err(TableError::WrongKey),
            (Some(content), None) => serde_json::from_str(content.get()).map_err(damaged)?,
            (None, Some(encrypted)) => {
                let key = key.filter(|key| Some(key.id()) == key_id).ok_or(TableError::WrongKey)?;
                let encrypted =
                    BASE64.decode(encrypted.as_bytes()).map_err(|e| TableError::Damaged(e.to_string()))?;
                let text = key
                    .decrypt_table(&encrypted, &associated_data(context, &chunks))
                    .map_err(TableError::Damaged)?;
                serde_json::from_slice(&text).map_err(damaged)?
            }
            _ => return Err(TableError::Damaged("a table without content".into())),
        };
        Ok(Self { content, chunks })
    }

    /// The same values as the checkpoint of another thread. The chunks stay as they are.
    pub fn for_thread(
        mut self,
        thread: &str,
        key: Option<&ThreadKey>,
        context: &str,
    ) -> Result<(RawJson, Vec<BlobId>), String> {
        self.content.thread = thread.to_owned();
        let table = seal_content(&self.content, self.chunks.clone(), key, context)?;
        Ok((table, self.chunks))
    }

    /// The id of the thread.
    pub fn thread(&self) -> &str {
        &self.content.thread
    }

    /// The names of values that are computed from an ancestor's value.
    pub fn derived(&self) -> &[String] {
        &self.content.derived
    }

    /// Whether the checkpoint contains a value.
    pub fn has_value(&self, name: &str) -> bool {
        self.content.values.contains_key(name)
    }

    /// The chunks of all values.
    pub fn chunks(&self) -> &[BlobId] {
        &self.chunks
    }

    /// The names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.content.values.keys().map(String::as_str)
    }

    /// Reads the checkpoint without its values.
    pub fn checkpoint<E: From<String>>(
        &self,
        key: Option<&ThreadKey>,
        read: &mut ReadChunk<'_, E>,
    ) -> Result<TypedValue, E> {
        self.read(&self.content.checkpoint, key, read)
    }

    /// Reads the metadata.
    pub fn metadata<E: From<String>>(
        &self,
        key: Option<&ThreadKey>,
        read: &mut ReadChunk<'_, E>,
    ) -> Result<TypedValue, E> {
        self.read(&self.content.metadata, key, read)
    }

    /// Reads a value; returns `None` if the checkpoint does not contain it.
    pub fn value<E: From<String>>(
        &self,
        name: &str,
        key: Option<&ThreadKey>,
        read: &mut ReadChunk<'_, E>,
    ) -> Result<Option<TypedValue>, E> {
        self.content.values.get(name).map(|stored| self.read(stored, key, read)).transpose()
    }

    fn read<E: From<String>>(
        &self,
        stored: &StoredValue,
        key: Option<&ThreadKey>,
        read: &mut ReadChunk<'_, E>,
    ) -> Result<TypedValue, E> {
        let mut bytes = BASE64.decode(stored.start.as_bytes()).map_err(|e| E::from(e.to_string()))?;
        for position in &stored.chunks {
            let id = self.chunks.get(*position).ok_or_else(|| E::from("an unknown chunk".to_owned()))?;
            let chunk = read(id)?;
            match key {
                None => bytes.extend_from_slice(&chunk),
                Some(key) => bytes.extend(key.decrypt_chunk(&chunk).map_err(E::from)?),
            }
        }
        Ok(TypedValue { type_tag: stored.type_tag.clone(), bytes })
    }
}

#[cfg(test)]
#[cfg(feature = "threads")]
mod tests {
    use super::*;

    fn encode(
        checkpoint: &NewThreadCheckpoint,
        key: Option<&ThreadKey>,
        context: &str,
    ) -> Result<EncodedValues, String> {
        super::encode(checkpoint, key, context, &|_| None)
    }

    fn checkpoint(value: &[u8]) -> NewThreadCheckpoint {
        let small = TypedValue::new("json", "{}");
        NewThreadCheckpoint::new("t", "1", small.clone(), small).values(vec![
            ("a".to_owned(), TypedValue::new("msgpack", value)),
            ("b".to_owned(), TypedValue::new("null", "")),
        ])
    }

    fn read_back(
        encoded: &EncodedValues,
        key: Option<&ThreadKey>,
        context: &str,
    ) -> Result<Vec<u8>, TableError> {
        let reader = ValueReader::open(encoded.table.get(), key, context)?;
        let stored: HashMap<_, _> = encoded.chunks.iter().cloned().collect();
        let mut read = |id: &BlobId| Ok::<Arc<[u8]>, String>(Arc::from(&stored[id].as_ref().unwrap()[..]));
        assert_eq!(
            reader.value("b", key, &mut read).unwrap().unwrap().into_parts(),
            ("null".to_owned(), vec![])
        );
        assert_eq!(reader.value("c", key, &mut read).unwrap(), None);
        reader
            .value("a", key, &mut read)
            .map(|value| value.unwrap().into_parts().1)
            .map_err(TableError::Damaged)
    }

    #[test]
    fn values_round_trip_with_and_without_a_key() {
        let key = ThreadKey::from_bytes([7; 32]);
        for len in [0, 1, SMALL, SMALL + 1, 100_000] {
            let value: Vec<u8> = (0..len).map(|n| (n * n / 7) as u8).collect();
            for key in [None, Some(&key)] {
                let encoded = encode(&checkpoint(&value), key, "run").unwrap();
                assert_eq!(read_back(&encoded, key, "run").unwrap(), value);
                let listed: Vec<_> = encoded.chunks.iter().map(|(id, _)| *id).collect();
                assert_eq!(chunks_of(encoded.table.get()).unwrap(), listed);
            }
        }
    }

    #[test]
    fn an_encrypted_table_shows_no_value_and_cannot_be_moved_or_changed() {
        let key = ThreadKey::from_bytes([7; 32]);
        let value = b"a secret sentence ".repeat(1000);
        let encoded = encode(&checkpoint(&value), Some(&key), "run").unwrap();
        let all = [
            encoded.table.get().as_bytes(),
            &encoded.chunks.iter().flat_map(|(_, chunk)| chunk.clone().unwrap()).collect::<Vec<_>>(),
        ]
        .concat();
        assert!(!all.windows(6).any(|window| window == b"secret"));
        assert!(matches!(read_back(&encoded, None, "run"), Err(TableError::WrongKey)));
        let other = ThreadKey::from_bytes([8; 32]);
        assert!(matches!(read_back(&encoded, Some(&other), "run"), Err(TableError::WrongKey)));
        assert!(matches!(read_back(&encoded, Some(&key), "another run"), Err(TableError::Damaged(_))));
        let plain = encode(&checkpoint(b"small"), None, "run").unwrap();
        assert!(matches!(read_back(&plain, Some(&key), "run"), Err(TableError::WrongKey)));
        // The same value has the same chunks, so that it is stored once.
        let again = encode(&checkpoint(&value), Some(&key), "run").unwrap();
        assert_eq!(again.chunks, encoded.chunks);
        assert_ne!(again.table, encoded.table);
    }

    #[test]
    fn invalid_tables_are_refused() {
        for table in ["", "{}", "[]", r#"{"format":1}"#, r#"{"format":2,"chunks":[]}"#] {
            assert!(chunks_of(table).is_err());
        }
        let empty = r#"{"format":1,"chunks":[]}"#;
        assert!(matches!(ValueReader::open(empty, None, ""), Err(TableError::Damaged(_))));
    }
}
