//! Manifests of snapshots: any bytes are a manifest or an error, and no path of a manifest leads out of the worktree. A
//! manifest that is based on itself does not end in a loop.

use milepost::internal::snapshot::Manifest;
use milepost::model::BlobId;

pub(super) fn run(data: &[u8]) {
    let loaded = Manifest::load(&BlobId::of(data), |_| Ok::<_, String>(data.to_vec()));
    let Ok(manifest) = loaded else { return };
    for path in manifest.entries.keys() {
        let parts: Vec<_> = path.split(|byte| *byte == b'/').collect();
        assert!(!path.starts_with(b"/") && !parts.contains(&&b".."[..]) && !parts.contains(&&b".git"[..]));
    }
}
