//! Tables of threads' values: any text is a table or an error, and values that are encoded are read back. The input is
//! also used as a value; after a form feed, as an earlier version of it.

use std::collections::HashMap;
use std::sync::Arc;

use milepost::internal::threads::{EncodedValues, ValueReader, chunks_of, encode, small_values};
use milepost::model::BlobId;
use milepost::{NewThreadCheckpoint, ThreadKey, TypedValue};

/// How often the input is repeated, so that a value is split into chunks.
const REPEAT: usize = 40;

pub(super) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        read_table(text);
    }
    let parts: Vec<_> = data.splitn(2, |byte| *byte == b'\x0c').collect();
    let [earlier, value @ ..] = parts.as_slice() else { return };
    let value = value.first().unwrap_or(earlier);
    let earlier = [earlier.repeat(REPEAT), value.repeat(REPEAT)].concat();
    let value = [earlier.clone(), value.to_vec()].concat();
    for key in [None, Some(ThreadKey::from_bytes([7; 32]))] {
        round_trip(&earlier, &value, key.as_ref());
    }
}

/// Reads every value of a table whose chunks are empty.
fn read_table(text: &str) {
    let chunks = chunks_of(text);
    small_values(text);
    let Ok(reader) = ValueReader::open(text, None, "run") else { return };
    assert_eq!(chunks.as_deref(), Ok(reader.chunks()));
    let mut read = |_: &BlobId| Ok::<Arc<[u8]>, String>(Arc::from([]));
    drop(reader.checkpoint(None, &mut read));
    drop(reader.metadata(None, &mut read));
    for name in reader.names() {
        drop(reader.value(name, None, &mut read));
    }
}

/// Encodes a value after an earlier version of it, and reads both back.
fn round_trip(earlier: &[u8], value: &[u8], key: Option<&ThreadKey>) {
    let small = TypedValue::new("json", "{}");
    let checkpoint = |bytes: &[u8]| {
        NewThreadCheckpoint::new("t", "1", small.clone(), small.clone())
            .values(vec![("v".to_owned(), TypedValue::new("bytes", bytes))])
    };
    let first = encode(&checkpoint(earlier), key, "run", &|_| None).expect("a value can be encoded");
    let mut stored = HashMap::new();
    assert_eq!(read_back(&first, &mut stored, key), earlier);
    let split = first.split.into_iter().next().map(|(_, split)| Arc::new(split));
    let second = encode(&checkpoint(value), key, "run", &|_| split.clone()).expect("a value can be encoded");
    assert_eq!(read_back(&second, &mut stored, key), value);
    let whole = encode(&checkpoint(value), key, "run", &|_| None).expect("a value can be encoded");
    let ids = |encoded: &EncodedValues| encoded.chunks.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!(ids(&second), ids(&whole), "the chunks depend on the earlier version");
}

fn read_back(
    encoded: &EncodedValues,
    stored: &mut HashMap<BlobId, Vec<u8>>,
    key: Option<&ThreadKey>,
) -> Vec<u8> {
    let new = encoded.chunks.iter().filter_map(|(id, bytes)| Some((*id, bytes.clone()?)));
    stored.extend(new);
    let reader = ValueReader::open(encoded.table.get(), key, "run").expect("an encoded table can be read");
    let mut read =
        |id: &BlobId| stored.get(id).map(|bytes| Arc::from(&bytes[..])).ok_or(String::from("missing"));
    let value = reader.value("v", key, &mut read).expect("a value can be read").expect("the value exists");
    value.into_parts().1
}
