//! Packs documents into frames, whole or as a delta against the next newer document, and unpacks them. Pure.
//! The newest two documents of a run are stored whole, an older one as a delta against its newer neighbour.
//! At most `MOST_DEPENDANTS` deltas depend on a whole document.

use std::cell::RefCell;
use std::io;

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

/// Maximum number of older documents that depend on one document.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) const MOST_DEPENDANTS: u64 = 15;

/// Frames up to this size stay whole: a delta would save too little to justify a dependency.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) const SMALL: usize = 1024;

/// New documents up to this size are stored uncompressed: they are repacked soon, and compressing them
/// costs more than writing them.
const QUICK: usize = 128 * 1024;

const LEVEL: i32 = 1;
/// Maximum size of a document. A frame with a larger length is damaged.
const LARGEST: u64 = 80 << 20;
const PLAIN: u8 = 0;
const PACKED: u8 = 1;
const PREFIX: usize = 9;

/// Packs a document that stays whole.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn whole(document: &[u8]) -> io::Result<Vec<u8>> {
    pack(document, &[])
}

/// Packs a new document, uncompressed unless it is large. Two saves later it is repacked, usually as a delta.
pub(crate) fn newest(document: &[u8]) -> io::Result<Vec<u8>> {
    if document.len() > QUICK {
        return pack(document, &[]);
    }
    let mut frame = Vec::with_capacity(PREFIX + document.len());
    frame.push(PLAIN);
    frame.extend_from_slice(&(document.len() as u64).to_le_bytes());
    frame.extend_from_slice(document);
    Ok(frame)
}

/// Unpacks a frame. `base` is the document that it was packed against, empty for a whole frame.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn unpack(frame: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let (prefix, payload) =
        frame.split_at_checked(PREFIX).ok_or_else(|| damaged("the frame is truncated"))?;
    let mut length = [0; 8];
    length.copy_from_slice(&prefix[1..]);
    let length = u64::from_le_bytes(length);
    if length > LARGEST {
        return Err(damaged("the frame's length exceeds the limit"));
    }
    match prefix[0] {
        PLAIN => Ok(payload.to_vec()),
        PACKED => {
            let mut document = Vec::with_capacity(length as usize);
            UNPACKER
                .with_borrow_mut(|context| context.decompress_using_dict(&mut document, payload, base))
                .map_err(code)?;
            if document.len() as u64 != length {
                return Err(damaged("the frame's length does not match its content"));
            }
            Ok(document)
        }
        _ => Err(damaged("the frame has an unknown type")),
    }
}

thread_local! {
    // Creating a context costs as much as packing a small document.
    static PACKER: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static UNPACKER: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Up to this combined size, the compression level's default window covers the document and its base.
const NEAR: usize = 384 * 1024;

/// Packs a document as a delta against `base`, or whole if `base` is empty.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn pack(document: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(PREFIX + zstd_safe::compress_bound(document.len()));
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(document.len()));
    if document.len() + base.len() <= NEAR {
        PACKER
            .with_borrow_mut(|context| context.compress_using_dict(&mut packed, document, base, LEVEL))
            .map_err(code)?;
    } else {
        // The window has to cover the whole base, otherwise matches further back are not found.
        let reach = (document.len() + base.len()).next_power_of_two().trailing_zeros().clamp(10, 27);
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(code)?;
        context.set_parameter(CParameter::WindowLog(reach)).map_err(code)?;
        context.set_parameter(CParameter::EnableLongDistanceMatching(true)).map_err(code)?;
        context.ref_prefix(base).map_err(code)?;
        context.compress2(&mut packed, document).map_err(code)?;
    }
    let plain = base.is_empty() && packed.len() >= document.len();
    frame.push(if plain { PLAIN } else { PACKED });
    frame.extend_from_slice(&(document.len() as u64).to_le_bytes());
    frame.extend_from_slice(if plain { document } else { &packed });
    Ok(frame)
}

fn code(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(seed: u64, len: usize) -> Vec<u8> {
        let mut x = seed | 1;
        (0..len)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                b"abcdefghijklmnopqrstuvwxyz0123456789\",:{}[]"[(x % 43) as usize]
            })
            .collect()
    }

    #[test]
    fn a_small_change_makes_a_small_difference() {
        let old = text(1, 64 * 1024);
        let mut new = old.clone();
        new[30_000..33_200].copy_from_slice(&text(2, 3_200));
        let frame = pack(&old, &new).unwrap();
        assert!(frame.len() < 3_500, "{}", frame.len());
        assert_eq!(unpack(&frame, &new).unwrap(), old);
    }

    #[test]
    fn large_documents_find_what_lies_far_back() {
        let old = text(1, 3 << 20);
        let mut new = old.clone();
        new[5..25].copy_from_slice(&text(2, 20));
        let frame = pack(&old, &new).unwrap();
        assert!(frame.len() < 2_000, "{}", frame.len());
        assert_eq!(unpack(&frame, &new).unwrap(), old);
    }

    proptest! {
        #[test]
        fn round_trips(document in proptest::collection::vec(any::<u8>(), 0..3000),
                       base in proptest::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(unpack(&whole(&document).unwrap(), &[]).unwrap(), document.clone());
            prop_assert_eq!(unpack(&newest(&document).unwrap(), &[]).unwrap(), document.clone());
            prop_assert_eq!(unpack(&pack(&document, &base).unwrap(), &base).unwrap(), document);
        }

        #[test]
        fn never_panics(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&frame, b"base");
        }
    }
}
