//! The parts of a commit's statement for the blobs that it refers to, and for roots.

use std::collections::{BTreeMap, BTreeSet};

use milepost::internal::store::check::checksum;
use milepost::model::BlobId;
use milepost::store::Part;

use super::Builder;
use crate::schema::key_hash;

/// The hash of the name of a root.
pub(crate) fn root_hash(name: &str) -> Vec<u8> {
    key_hash("root", &[name.as_bytes()])
}

pub(crate) fn root_checksum(name: &[u8], blob: &[u8]) -> [u8; 16] {
    checksum(Part::Blob, &[b"root", name], blob)
}

impl Builder<'_> {
    /// Locks the blobs that the commit refers to against removal, in the order in which a collection locks them.
    pub(super) fn hold_blobs(&mut self) -> usize {
        let of_roots = self.commit.roots.iter().map(|(_, blob)| blob);
        let blobs: BTreeSet<BlobId> = self.commit.blobs.iter().chain(of_roots).copied().collect();
        if !blobs.is_empty() {
            let ids = self.params.byte_arrays(blobs.iter().map(|id| id.as_bytes().to_vec()).collect());
            let project = self.params.text(self.context.blob_project);
            let held = format!(
                "SELECT id FROM {{s}}.blob WHERE project = {project} AND id = ANY({ids}) AND data IS NOT NULL \
                 AND doomed IS NULL ORDER BY id FOR SHARE"
            );
            self.parts.push(format!("held AS MATERIALIZED ({held})"));
        }
        blobs.len()
    }

    /// Stores the blobs in the run's project too, if that is not the handle's: only a collection in the run's project
    /// finds out that the run refers to them. A blob that is already there is locked until the commit ends, and is no
    /// longer about to be removed.
    pub(super) fn share_blobs(&mut self, blobs: usize) {
        if blobs == 0 || self.context.project == self.context.blob_project {
            return;
        }
        let from = self.params.text(self.context.blob_project);
        let to = self.params.text(&*self.context.project);
        let sql = format!(
            "INSERT INTO {{s}}.blob (project, id, length, size, data) SELECT {to}, b.id, b.length, b.size, b.data \
             FROM written, held JOIN {{s}}.blob b ON b.project = {from} AND b.id = held.id ORDER BY b.id \
             ON CONFLICT (project, id) DO UPDATE SET length = excluded.length, size = excluded.size, \
             data = excluded.data, doomed = NULL WHERE blob.data IS NULL OR blob.doomed IS NOT NULL"
        );
        self.part("share_blobs", sql);
    }

    pub(super) fn roots(&mut self) {
        let roots: BTreeMap<&str, &BlobId> =
            self.commit.roots.iter().map(|(name, blob)| (&**name, blob)).collect();
        if roots.is_empty() {
            return;
        }
        let p = &mut self.params;
        let keys = p.byte_arrays(roots.keys().map(|name| root_hash(name)).collect());
        let names = p.byte_arrays(roots.keys().map(|name| name.as_bytes().to_vec()).collect());
        let blobs = p.byte_arrays(roots.values().map(|blob| blob.as_bytes().to_vec()).collect());
        let sums = p.byte_arrays(
            roots
                .iter()
                .map(|(name, blob)| root_checksum(name.as_bytes(), blob.as_bytes()).to_vec())
                .collect(),
        );
        let project = p.text(self.context.blob_project);
        let sql = format!(
            "INSERT INTO {{s}}.blob_root (project, key, name, blob, checksum) SELECT {project}, a.* \
             FROM written, unnest({keys}, {names}, {blobs}, {sums}) a ON CONFLICT (project, key) \
             DO UPDATE SET name = excluded.name, blob = excluded.blob, checksum = excluded.checksum"
        );
        self.part("set_roots", sql);
    }
}
