//! Encrypts tables and chunks with AES-256-GCM-SIV. Chunks of the same content are encrypted to the same bytes, so
//! that they are stored once; a reader without the key learns only which chunks are equal, and their sizes.

use std::fmt;

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Key, Nonce};
use data_encoding::HEXLOWER;

/// Number of bytes in a nonce, which precedes the encrypted bytes.
const NONCE: usize = 12;

/// A key that encrypts the values of threads at rest.
#[derive(Clone)]
pub struct ThreadKey {
    tables: [u8; 32],
    chunks: [u8; 32],
    nonces: [u8; 32],
    id: String,
}

impl fmt::Debug for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ThreadKey {
    /// A key from 32 random bytes. The bytes must be kept: without them, no value can be read.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let derive = |purpose: &str| blake3::derive_key(&format!("milepost threads 1: {purpose}"), &bytes);
        Self {
            tables: derive("tables"),
            chunks: derive("chunks"),
            nonces: derive("nonces of chunks"),
            id: HEXLOWER.encode(&derive("id of the key")[..8]),
        }
    }

    /// The id of the key, which says nothing about it. Tables name it, so that a wrong key is recognised.
    pub(crate) fn id(&self) -> String {
        self.id.clone()
    }

    pub(crate) fn encrypt_chunk(&self, chunk: &[u8]) -> Result<Vec<u8>, String> {
        let hash = blake3::keyed_hash(&self.nonces, chunk);
        let nonce = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        encrypt(&self.chunks, nonce, chunk, b"")
    }

    pub(crate) fn decrypt_chunk(&self, stored: &[u8]) -> Result<Vec<u8>, String> {
        decrypt(&self.chunks, stored, b"")
    }

    pub(crate) fn encrypt_table(&self, text: &[u8], bound: &[u8]) -> Result<Vec<u8>, String> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|e| e.to_string())?;
        encrypt(&self.tables, nonce, text, bound)
    }

    pub(crate) fn decrypt_table(&self, stored: &[u8], bound: &[u8]) -> Result<Vec<u8>, String> {
        decrypt(&self.tables, stored, bound)
    }
}

fn encrypt(key: &[u8; 32], nonce: [u8; NONCE], plain: &[u8], bound: &[u8]) -> Result<Vec<u8>, String> {
    let cipher = Aes256GcmSiv::new(&Key::<Aes256GcmSiv>::from(*key));
    let encrypted = cipher
        .encrypt(&Nonce::from(nonce), Payload { msg: plain, aad: bound })
        .map_err(|_| "the value is too large to be encrypted".to_owned())?;
    Ok([&nonce[..], &encrypted].concat())
}

fn decrypt(key: &[u8; 32], stored: &[u8], bound: &[u8]) -> Result<Vec<u8>, String> {
    let (nonce, encrypted) = stored.split_first_chunk::<NONCE>().ok_or("encrypted bytes without a nonce")?;
    let cipher = Aes256GcmSiv::new(&Key::<Aes256GcmSiv>::from(*key));
    cipher
        .decrypt(&Nonce::from(*nonce), Payload { msg: encrypted, aad: bound })
        .map_err(|_| "the encrypted bytes were changed".to_owned())
}
