//! The writes of tasks: values that belong to a checkpoint of a thread without being part of it. They are
//! attachments of the run, and may be saved before their checkpoint.

use super::{Threads, context, encoding_error, place_of_writes, writes_key};
use crate::Error;
use crate::engine::bookkeeping::open_record;
use crate::model::{AttachedValue, Attachment, BlobId, Profile, RunId};
use crate::store::attachment::batches;
use crate::store::{Commit, Damage, MAX_ATTACHED_VALUE, Part, StoreError, WriteDecision};
use crate::threads::{ThreadKey, ThreadWrite, TypedValue};

/// A value of more bytes than this is stored as a blob.
const LARGE: usize = 64 << 10;
/// What the encoding of an encrypted write begins with, followed by the id of the key and the encoding.
const ENCRYPTED: &str = "encrypted/";
/// Number of attempts if a collection removes values that are about to be used.
const TRIES: u32 = 100;

/// Attachments for one run, and the contents of their blobs.
#[derive(Default)]
struct NewAttachments {
    attachments: Vec<Attachment>,
    contents: Vec<Vec<u8>>,
}

impl NewAttachments {
    fn add(
        &mut self,
        (run, namespace, id): (&RunId, &str, &str),
        write: &ThreadWrite,
        replace: bool,
        key: Option<&ThreadKey>,
    ) -> Result<(), Error> {
        const { assert!(LARGE < MAX_ATTACHED_VALUE) };
        let (type_tag, bytes) = to_store(write, key, &context(run, namespace, id))?;
        let value = if bytes.len() > LARGE {
            let blob = BlobId::of(&bytes);
            self.contents.push(bytes);
            AttachedValue::Blob(blob)
        } else {
            AttachedValue::Bytes(bytes)
        };
        let (checkpoint, task) = (writes_key(namespace, id), &write.task_id);
        let attachment = Attachment::new(checkpoint, task, write.index, &write.channel, type_tag, value)
            .with_task_path(&write.task_path);
        self.attachments.push(if replace { attachment.replacing() } else { attachment });
        Ok(())
    }
}

impl Threads {
    /// Saves writes that belong to a checkpoint. They are durable when this returns. A write with the same task and
    /// index stays as it is, unless `replace` is set.
    pub fn put_writes(
        &self,
        thread: &str,
        namespace: &str,
        id: &str,
        writes: &[ThreadWrite],
        replace: bool,
    ) -> Result<(), Error> {
        let run = Self::run_of(thread)?;
        let mut new = NewAttachments::default();
        for write in writes {
            new.add((&run, namespace, id), write, replace, self.key())?;
        }
        self.attach_all(&run, thread, &new)
    }

    /// Copies the writes of all checkpoints to another thread.
    pub(super) fn copy_writes(&self, from: &RunId, thread: &str, to: &RunId) -> Result<(), Error> {
        let mut new = NewAttachments::default();
        for attachment in self.mp.store.attachments(from, None)? {
            let attachment = attachment.map_err(StoreError::from)?;
            let Some((namespace, id)) = place_of_writes(attachment.checkpoint()) else { continue };
            let write = self.write_of(from, &context(from, namespace, id), &attachment)?;
            new.add((to, namespace, id), &write, true, self.key())?;
        }
        self.attach_all(to, thread, &new)
    }

    fn attach_all(&self, run: &RunId, thread: &str, new: &NewAttachments) -> Result<(), Error> {
        let contents: Vec<&[u8]> = new.contents.iter().map(Vec::as_slice).collect();
        for batch in batches(&new.attachments) {
            let mut tries = 0;
            loop {
                tries += 1;
                if !contents.is_empty() {
                    self.mp.store.put_blobs(&contents)?;
                }
                match self.attach(run, thread, batch) {
                    Err(Error::Store(StoreError::BlobsMissing(_))) if tries < TRIES => {}
                    attached => break attached?,
                }
            }
        }
        Ok(())
    }

    /// Adds attachments to the run of a thread, and opens the run if it does not exist.
    fn attach(&self, run: &RunId, thread: &str, attachments: &[Attachment]) -> Result<(), Error> {
        let now = self.mp.now();
        let options = self.mp.redact(self.run_options(thread), "run_options")?;
        let mut is_thread = true;
        self.mp.write(run, &mut |view| {
            is_thread = view.record.as_ref().is_none_or(|record| record.profile == Profile::Thread);
            if !is_thread {
                return WriteDecision::NoChange;
            }
            let mut events = Vec::new();
            let mut record = open_record(view, run, &options, &self.mp.settings, now, &mut events);
            record.updated_at = now;
            let mut commit = Commit::new(record);
            commit.attachments = attachments.to_vec();
            commit.blobs = attachments.iter().filter_map(|one| one.blob().copied()).collect();
            commit.events = events;
            WriteDecision::Commit(Box::new(commit))
        })?;
        if is_thread { Ok(()) } else { Err(Error::NoThread { run: run.clone() }) }
    }

    /// The writes that belong to a checkpoint, sorted by task path, task and index.
    pub(super) fn writes_of(
        &self,
        run: &RunId,
        namespace: &str,
        id: &str,
    ) -> Result<Vec<ThreadWrite>, Error> {
        let bound = context(run, namespace, id);
        let attachments = self.mp.store.attachments(run, Some(&writes_key(namespace, id)))?;
        let read =
            |one: Result<Attachment, Damage>| self.write_of(run, &bound, &one.map_err(StoreError::from)?);
        attachments.into_iter().map(read).collect()
    }

    fn write_of(&self, run: &RunId, bound: &str, attachment: &Attachment) -> Result<ThreadWrite, Error> {
        let stored = match attachment.value() {
            AttachedValue::Bytes(bytes) => bytes.clone(),
            AttachedValue::Blob(blob) => self.mp.store.blob(blob)?,
        };
        let mut write = ThreadWrite::new(
            attachment.task_path(),
            attachment.task_id(),
            attachment.index(),
            attachment.channel(),
            TypedValue::new(attachment.type_tag(), stored),
        );
        from_store(&mut write, self.key(), bound, run)?;
        Ok(write)
    }
}

/// The encoding and the bytes of a write as they are stored: encrypted if there is a key.
fn to_store(write: &ThreadWrite, key: Option<&ThreadKey>, bound: &str) -> Result<(String, Vec<u8>), Error> {
    let TypedValue { type_tag, bytes } = &write.value;
    let Some(key) = key else { return Ok((type_tag.clone(), bytes.clone())) };
    let encrypted = key.encrypt_table(bytes, &bound_to(write, bound, type_tag)).map_err(encoding_error)?;
    Ok((format!("{ENCRYPTED}{}/{type_tag}", key.id()), encrypted))
}

/// Decrypts a stored write if it is encrypted.
fn from_store(
    write: &mut ThreadWrite,
    key: Option<&ThreadKey>,
    bound: &str,
    run: &RunId,
) -> Result<(), Error> {
    let stored = &write.value;
    let encrypted = stored.type_tag.strip_prefix(ENCRYPTED).and_then(|rest| rest.split_once('/'));
    let (key, type_tag) = match (key, encrypted) {
        (None, None) => return Ok(()),
        (Some(key), Some((id, type_tag))) if key.id() == id => (key, type_tag.to_owned()),
        // With a key, a value that is not encrypted was not written with it.
        _ => return Err(Error::ThreadKey { run: run.clone() }),
    };
    let bytes = key
        .decrypt_table(&stored.bytes, &bound_to(write, bound, &type_tag))
        .map_err(|why| StoreError::from(Damage::integrity(Part::Attachment, "an encrypted write", why)))?;
    write.value = TypedValue { type_tag, bytes };
    Ok(())
}

/// What an encrypted write is bound to.
fn bound_to(write: &ThreadWrite, bound: &str, type_tag: &str) -> Vec<u8> {
    let ThreadWrite { task_path, task_id, index, channel, .. } = write;
    serde_json::json!([bound, task_path, task_id, index, channel, type_tag]).to_string().into_bytes()
}
