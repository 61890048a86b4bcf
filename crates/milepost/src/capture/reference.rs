//! Creates references to files. Takes a path and a deadline, and returns path, size and digest of a regular
//! file. Must not keep its content.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::Instant;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::fs::bounded;
use crate::model::FileRef;

/// Maximum size of a file that is read for its digest.
const DIGEST_LIMIT: u64 = 64 << 20;

/// Creates a reference to a file, with its digest if it is at most 64 MiB and can be read before the
/// deadline. Otherwise the reference has the time of the last change (`modified`) and the reason why there is
/// no digest (`sha256_omitted`). Refuses anything but a regular file.
pub fn file_reference(path: &Path, deadline: Instant) -> io::Result<FileRef> {
    // Symbolic links in the path are the agent's own, so they are followed.
    let mut file = bounded::open(&crate::fs::canonicalize(path)?)?;
    let about = file.metadata()?;
    let mut reference = FileRef {
        blob: None,
        path: path.to_string_lossy().into_owned(),
        sha256: None,
        size: Some(about.len()),
        extra: Default::default(),
    };
    match digest(&mut file, deadline)? {
        Ok((digest, size)) => {
            reference.sha256 = Some(digest);
            reference.size = Some(size);
        }
        Err(why) => {
            if let Some(time) = about.modified().ok().and_then(|time| Timestamp::try_from(time).ok()) {
                reference.extra.put("modified", &time.to_string());
            }
            reference.extra.put("sha256_omitted", why);
        }
    }
    Ok(reference)
}

/// Reads a file once, to its end. Returns the digest and size of the bytes read, or why it was not read.
fn digest(file: &mut std::fs::File, deadline: Instant) -> io::Result<Result<(String, u64), &'static str>> {
    if file.metadata()?.len() > DIGEST_LIMIT {
        return Ok(Err("the file is larger than 64 MiB"));
    }
    let (mut hasher, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if Instant::now() >= deadline {
            return Ok(Err("the deadline passed before the file was read"));
        }
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buffer[..n]);
                size += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Ok((HEXLOWER.encode(&hasher.finalize()), size)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_told_by_size_and_digest_and_nothing_else_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        let reference = file_reference(file.path(), later).unwrap();
        assert_eq!(reference.size, Some(3));
        assert!(reference.sha256.unwrap().starts_with("ba7816bf"));
        for other in [folder.path(), Path::new("/dev/zero"), &folder.path().join("none")] {
            assert!(file_reference(other, later).is_err(), "{}", other.display());
        }
        let late = file_reference(file.path(), Instant::now()).unwrap();
        assert!(late.sha256.is_none() && late.size == Some(3), "{late:?}");
        assert!(late.extra.get("sha256_omitted").is_some() && late.extra.get("modified").is_some());
        file.as_file().set_len(DIGEST_LIMIT + 1).unwrap();
        let large = file_reference(file.path(), later).unwrap();
        assert_eq!((large.sha256, large.size), (None, Some(DIGEST_LIMIT + 1)));
    }
}
