//! Compresses the content of blobs, restores it and verifies it against its id. Pure.
//! Each store decides where the compressed bytes are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io;

use zstd::zstd_safe::{self, CCtx, DCtx};

use super::{BLOB_LIMIT, Damage, Part, StoreError};
use crate::model::BlobId;
use crate::parallel;

const LEVEL: i32 = 3;

thread_local! {
    // Creating a context costs as much as compressing a small content.
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Computes the ids of contents. Omits duplicates, and refuses a content that is too large.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn identify<'a>(contents: &[&'a [u8]]) -> Result<Vec<(BlobId, &'a [u8])>, StoreError> {
    if contents.iter().any(|content| content.len() as u64 > BLOB_LIMIT) {
        return Err(StoreError::Rules("a blob is larger than 64 MiB"));
    }
    let mut seen = HashSet::new();
    let ids = parallel::map(contents, |content| BlobId::of(content));
    let all = ids.into_iter().zip(contents.iter().copied());
    Ok(all.filter(|(id, _)| seen.insert(*id)).collect())
}

/// Compresses a content to one zstd frame, which contains the size of the content.
pub(crate) fn compress(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    COMPRESSOR.with_borrow_mut(|context| context.compress(&mut frame, content, LEVEL)).map_err(|code| {
        io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code).to_owned())
    })?;
    frame.shrink_to_fit();
    Ok(frame)
}

/// Compresses a content, or returns it as it is if that is not larger.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
pub(crate) fn compress_if_smaller(content: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    let frame = compress(content)?;
    Ok(if frame.len() < content.len() { Cow::Owned(frame) } else { Cow::Borrowed(content) })
}

/// Compresses several contents, each as `compress_if_smaller` does. The result has the same order.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn compress_all<'a>(contents: &[&'a [u8]]) -> io::Result<Vec<Cow<'a, [u8]>>> {
    parallel::map(contents, |content| compress_if_smaller(content)).into_iter().collect()
}

/// Restores what `compress_if_smaller` returned for a content of `size` bytes.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn restore(id: &BlobId, stored: &[u8], size: u64) -> Result<Vec<u8>, Damage> {
    if stored.len() as u64 == size {
        return verify(id, stored.to_vec());
    }
    decompress(id, stored, size)
}

/// Restores what `compress` returned.
pub(crate) fn restore_frame(id: &BlobId, frame: &[u8]) -> Result<Vec<u8>, Damage> {
    match zstd_safe::get_frame_content_size(frame) {
        Ok(Some(size)) => decompress(id, frame, size),
        _ => Err(damage(id, "no zstd frame")),
    }
}

fn decompress(id: &BlobId, frame: &[u8], size: u64) -> Result<Vec<u8>, Damage> {
    if size > BLOB_LIMIT {
        return Err(damage(id, "a content that is too large"));
    }
    let mut content = Vec::with_capacity(size as usize);
    DECOMPRESSOR
        .with_borrow_mut(|context| context.decompress(&mut content, frame))
        .map_err(|code| damage(id, zstd_safe::get_error_name(code)))?;
    verify(id, content)
}

fn verify(id: &BlobId, content: Vec<u8>) -> Result<Vec<u8>, Damage> {
    let found = BlobId::of(&content);
    if found == *id { Ok(content) } else { Err(damage(id, found.to_string())) }
}

/// Damage to a blob. The id is the expected value, because it is the hash of the content.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn damage(id: &BlobId, found: impl Into<String>) -> Damage {
    Damage::integrity(Part::Blob, id.to_string(), found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(content in proptest::collection::vec(any::<u8>(), 0..3000), repeated in 1..5_usize) {
            let content = content.repeat(repeated);
            let id = BlobId::of(&content);
            prop_assert_eq!(&restore_frame(&id, &compress(&content).unwrap()).unwrap(), &content);
            let stored = compress_if_smaller(&content).unwrap();
            prop_assert_eq!(&restore(&id, &stored, content.len() as u64).unwrap(), &content);
        }

        #[test]
        fn never_panics(stored in proptest::collection::vec(any::<u8>(), 0..200), size in any::<u64>()) {
            let id = BlobId::of(b"another content");
            prop_assert!(restore(&id, &stored, size).is_err());
            prop_assert!(restore_frame(&id, &stored).is_err());
        }
    }

    #[test]
    fn duplicates_are_omitted_and_large_contents_refused() {
        let large = vec![0; BLOB_LIMIT as usize + 1];
        assert_eq!(identify(&[b"a", b"b", b"a"]).unwrap().len(), 2);
        assert!(matches!(identify(&[b"a", &large]), Err(StoreError::Rules(_))));
        // A frame that claims an enormous size allocates nothing.
        let frame = compress(&large).unwrap();
        assert!(restore_frame(&BlobId::of(&large), &frame).is_err());
    }
}
