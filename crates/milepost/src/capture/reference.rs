//! A file by reference: where it is, how large, and what it holds, without holding it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::model::FileRef;

/// Reads a file to its end once. One that grows meanwhile is told as it was read; what is no file, and may have no end, is
/// refused.
pub fn reference(path: &Path) -> io::Result<FileRef> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut file = File::open(path)?;
    let (mut hasher, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&buffer[..n]);
        size += n as u64;
    }
    let sha256 = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(FileRef {
        path: path.to_string_lossy().into_owned(),
        sha256: Some(sha256),
        size: Some(size),
        extra: Default::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_size_and_digest_and_nothing_else_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        let told = reference(file.path()).unwrap();
        assert_eq!(told.size, Some(3));
        assert!(told.sha256.unwrap().starts_with("ba7816bf"));
        for other in [folder.path(), Path::new("/dev/zero"), &folder.path().join("none")] {
            assert!(reference(other).is_err(), "{}", other.display());
        }
    }
}
