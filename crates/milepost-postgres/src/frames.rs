//! Stores documents as chains of frames: the first frame of a chain is whole, and each later one is a delta
//! against the frame before it. A new document therefore costs the bytes that changed, and no row is rewritten
//! when it becomes older. A frame stays as long as a later checkpoint of its chain needs it, even if its own
//! checkpoint was removed. Packs and unpacks; runs no statements except one that reads a chain.

use std::time::Duration;

use milepost::internal::store::check::{checksum, compare};
use milepost::internal::store::frame::{self, MOST_DEPENDANTS, SMALL};
use milepost::store::{Damage, Part, Sealed};
use tokio_postgres::Row as SqlRow;

use crate::decode::{column, number};
use crate::error::PostgresError;
use crate::schema::SchemaName;
use crate::session::{Params, Session};

/// A frame to be stored.
pub(crate) struct NewFrame {
    pub(crate) sequence: u64,
    /// The sequence number of the whole frame that its chain starts with.
    pub(crate) first: u64,
    /// The sequence number of the frame that it is a delta against; 0 for a whole frame.
    pub(crate) base: u64,
    pub(crate) data: Vec<u8>,
}

/// The end of a run's newest chain, to which the next document can be added.
#[derive(Debug, Clone)]
pub(crate) struct ChainEnd {
    pub(crate) sequence: u64,
    pub(crate) first: u64,
    pub(crate) length: u64,
    pub(crate) document: Vec<u8>,
}

pub(crate) fn frame_checksum(n: i64, sequence: u64, first: u64, base: u64, data: &[u8]) -> [u8; 16] {
    let key = [n as u64, sequence, first, base].map(u64::to_le_bytes).concat();
    checksum(Part::Body, &[&key], data)
}

/// Whether a document is worth storing as a delta.
pub(crate) fn may_be_delta(document: &[u8]) -> bool {
    document.len() > SMALL
}

/// Packs new documents. `end` is the end of the run's newest chain, and afterwards that of the chain with the new
/// documents.
pub(crate) fn pack(puts: &[&Sealed], end: &mut Option<ChainEnd>) -> Result<Vec<NewFrame>, PostgresError> {
    let failed = |e: std::io::Error| PostgresError::Value { message: e.to_string() };
    let mut frames = Vec::with_capacity(puts.len());
    for sealed in puts {
        let (sequence, document) = (sealed.header().sequence(), sealed.bytes());
        let whole = frame::whole(document).map_err(failed)?;
        let mut stored = NewFrame { sequence, first: sequence, base: 0, data: whole };
        let mut length = 1;
        if let Some(end) = end.as_ref()
            && may_be_delta(document)
            && end.length <= MOST_DEPENDANTS
        {
            let delta = frame::pack(document, &end.document).map_err(failed)?;
            if delta.len() < stored.data.len() {
                stored = NewFrame { sequence, first: end.first, base: end.sequence, data: delta };
                length = end.length + 1;
            }
        }
        *end = Some(ChainEnd { sequence, first: stored.first, length, document: document.to_vec() });
        frames.push(stored);
    }
    Ok(frames)
}

/// Columns that `unpack` decodes. The table's alias is `f`.
pub(crate) const FRAME: &str = "f.sequence AS f_sequence, f.first AS f_first, f.base AS f_base, \
    f.checksum AS f_checksum, f.data AS f_data";

/// Unpacks the last of the frames of one chain, which are sorted by sequence number.
pub(crate) fn unpack(n: i64, chain: &[SqlRow]) -> Result<Result<Vec<u8>, Damage>, PostgresError> {
    let wanted = chain.last().map(|row| number(row, "f_sequence")).transpose()?.unwrap_or(0);
    let (mut document, mut before) = (Vec::new(), 0);
    for row in chain {
        let (sequence, first, base) =
            (number(row, "f_sequence")?, number(row, "f_first")?, number(row, "f_base")?);
        let data: &[u8] = column(row, "f_data")?;
        let because = |damage: Damage| damage.with_base((sequence != wanted).then_some(sequence));
        let sum = frame_checksum(n, sequence, first, base, data);
        if let Err(damage) = compare(Part::Body, sum, column(row, "f_checksum")?) {
            return Ok(Err(because(damage)));
        }
        if base != before {
            let found = if before == 0 { "a missing start".to_owned() } else { format!("frame {before}") };
            return Ok(Err(because(Damage::integrity(Part::Body, format!("frame {base} before it"), found))));
        }
        document = match frame::unpack(data, &document) {
            Ok(document) => document,
            Err(e) => {
                return Ok(Err(because(Damage::integrity(Part::Body, "a readable frame", e.to_string()))));
            }
        };
        before = sequence;
    }
    if chain.is_empty() {
        return Ok(Err(Damage::integrity(Part::Body, "a frame", "no frame")));
    }
    Ok(Ok(document))
}

/// Reads the end of a run's newest chain. `None` if the run has no frame, or if the chain is damaged; the next
/// document then starts a chain.
pub(crate) fn read_end(
    session: &mut Session,
    schema: &SchemaName,
    n: i64,
    patience: Duration,
) -> Result<Option<ChainEnd>, PostgresError> {
    let mut params = Params::new();
    let run = params.int(n);
    let sql = schema.fill(&format!(
        "SELECT {FRAME} FROM (SELECT first, sequence FROM {{s}}.checkpoint WHERE run_n = {run} \
         ORDER BY sequence DESC LIMIT 1) t JOIN {{s}}.frame f ON f.run_n = {run} AND f.first = t.first \
         AND f.sequence <= t.sequence ORDER BY f.sequence"
    ));
    let chain = session.query(&sql, &params, patience)?;
    let Some(last) = chain.last() else { return Ok(None) };
    let (sequence, first) = (number(last, "f_sequence")?, number(last, "f_first")?);
    let document = unpack(n, &chain)?.ok();
    Ok(document.map(|document| ChainEnd { sequence, first, length: chain.len() as u64, document }))
}
