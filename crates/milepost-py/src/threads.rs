//! Threads: checkpoints of a program that keeps its state as named values, such as LangGraph. Takes and returns
//! serialised values; `milepost.langgraph` serialises them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use milepost::{
    Error, LoadedThread, NewThreadCheckpoint, ThreadKey, ThreadList, ThreadQuery, ThreadWrite, TypedValue,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::{OrRaise as _, invalid};
use crate::gate::released;
use crate::handle::Handle;

/// The encoding of a value, and the value.
type Typed = (String, PyBackedBytes);
type TypedOut<'py> = (String, Bound<'py, PyBytes>);
/// Task, channel, encoding and value of a write.
type WriteOut<'py> = (String, String, String, Bound<'py, PyBytes>);

fn typed((type_tag, bytes): &Typed) -> TypedValue {
    TypedValue::new(type_tag.as_str(), &bytes[..])
}

fn typed_out(py: Python<'_>, value: TypedValue) -> TypedOut<'_> {
    let (type_tag, bytes) = value.into_parts();
    (type_tag, PyBytes::new(py, &bytes))
}

fn write_out<'py>(py: Python<'py>, write: &ThreadWrite) -> WriteOut<'py> {
    let value = write.value();
    let bytes = PyBytes::new(py, value.bytes());
    (write.task_id().clone(), write.channel().clone(), value.type_tag().clone(), bytes)
}

/// The key in the bytes that a caller gave.
pub(crate) fn thread_key(bytes: &[u8]) -> PyResult<ThreadKey> {
    let bytes = bytes.try_into().map_err(|_| invalid("the key must be 32 bytes"))?;
    Ok(ThreadKey::from_bytes(bytes))
}

/// The threads of a store.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct Threads {
    threads: Handle<milepost::Threads>,
}

impl Threads {
    pub(crate) fn new(threads: milepost::Threads) -> Self {
        Self { threads: Handle::new("the saver", threads) }
    }

    /// Calls `work` while the interpreter is released.
    fn released<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&milepost::Threads) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let threads = self.threads.get()?;
        released(py, move || work(&threads)).or_raise()
    }
}

#[pymethods]
impl Threads {
    /// Saves a checkpoint.
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    #[pyo3(signature = (*, thread, namespace, id, parent, invocation, checkpoint, metadata, values, derived, summary))]
    fn put(
        &self,
        py: Python<'_>,
        thread: String,
        namespace: String,
        id: String,
        parent: Option<String>,
        invocation: Option<String>,
        checkpoint: Typed,
        metadata: Typed,
        values: Vec<(String, String, PyBackedBytes)>,
        derived: Vec<String>,
        summary: Option<String>,
    ) -> PyResult<()> {
        self.released(py, move |threads| {
            let value =
                |(name, type_tag, bytes): (String, String, PyBackedBytes)| (name, typed(&(type_tag, bytes)));
            let new = NewThreadCheckpoint::new(thread, id, typed(&checkpoint), typed(&metadata))
                .namespace(namespace)
                .parent(parent)
                .invocation(invocation)
                .values(values.into_iter().map(value).collect::<Vec<_>>())
                .derived(derived)
                .summary(summary);
            threads.put(&new)
        })
    }

    /// Saves what a task wrote: task path, task, index, channel, encoding and value of each write.
    #[pyo3(signature = (*, thread, namespace, id, writes, replace))]
    fn put_writes(
        &self,
        py: Python<'_>,
        thread: &str,
        namespace: &str,
        id: &str,
        writes: Vec<(String, String, i64, String, String, PyBackedBytes)>,
        replace: bool,
    ) -> PyResult<()> {
        self.released(py, move |threads| {
            let writes: Vec<_> = writes
                .into_iter()
                .map(|(path, task, index, channel, type_tag, bytes)| {
                    ThreadWrite::new(path, task, index, channel, typed(&(type_tag, bytes)))
                })
                .collect();
            threads.put_writes(thread, namespace, id, &writes, replace)
        })
    }

    /// Finds the newest checkpoint in a namespace, or the one with an id.
    fn find(
        &self,
        py: Python<'_>,
        thread: &str,
        namespace: &str,
        id: Option<&str>,
    ) -> PyResult<Option<ThreadEntry>> {
        let found = self.released(py, |threads| threads.find(thread, namespace, id))?;
        Ok(found.map(|entry| ThreadEntry { entry }))
    }

    /// Lists checkpoints, those with the greatest ids first.
    #[pyo3(signature = (*, thread, namespace, id, before))]
    fn list(
        &self,
        py: Python<'_>,
        thread: Option<String>,
        namespace: Option<String>,
        id: Option<String>,
        before: Option<String>,
    ) -> PyResult<ThreadEntries> {
        let query = ThreadQuery::default().thread(thread).namespace(namespace).id(id).before(before);
        let list = self.released(py, |threads| threads.list(query))?;
        Ok(ThreadEntries { list: Handle::new("the list", Arc::new(Mutex::new(list))) })
    }

    /// Reads the metadata of a checkpoint.
    fn metadata<'py>(&self, py: Python<'py>, entry: &ThreadEntry) -> PyResult<TypedOut<'py>> {
        let value = self.released(py, |threads| threads.metadata(&entry.entry))?;
        Ok(typed_out(py, value))
    }

    /// Reads a checkpoint; returns `None` if it was removed since it was found.
    fn load(&self, py: Python<'_>, entry: &ThreadEntry) -> PyResult<Option<LoadedCheckpoint>> {
        let loaded = self.released(py, |threads| threads.load(&entry.entry))?;
        Ok(loaded.map(|loaded| LoadedCheckpoint { loaded }))
    }

    /// For each name, the value of the nearest ancestor and the writes since.
    #[allow(clippy::type_complexity, reason = "a dictionary in Python")]
    fn history<'py>(
        &self,
        py: Python<'py>,
        entry: &ThreadEntry,
        names: Vec<String>,
    ) -> PyResult<HashMap<String, (Option<TypedOut<'py>>, Vec<WriteOut<'py>>)>> {
        let found = self.released(py, |threads| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            threads.history(&entry.entry, &names)
        })?;
        let out = |(name, history): (String, milepost::ThreadHistory)| {
            let (seed, writes) = history.into_parts();
            let writes = writes.iter().map(|write| write_out(py, write)).collect();
            (name, (seed.map(|seed| typed_out(py, seed)), writes))
        };
        Ok(found.into_iter().map(out).collect())
    }

    /// Removes a thread. Returns false if it does not exist.
    fn delete_thread(&self, py: Python<'_>, thread: &str) -> PyResult<bool> {
        self.released(py, |threads| threads.delete_thread(thread))
    }

    /// Removes the checkpoints of these invocations in all threads.
    fn delete_invocations(&self, py: Python<'_>, invocations: Vec<String>) -> PyResult<u64> {
        self.released(py, |threads| {
            let invocations: Vec<&str> = invocations.iter().map(String::as_str).collect();
            threads.delete_invocations(&invocations)
        })
    }

    /// Copies a thread.
    fn copy_thread(&self, py: Python<'_>, source: &str, target: &str) -> PyResult<u64> {
        self.released(py, |threads| threads.copy_thread(source, target))
    }

    /// Keeps only the newest checkpoints of each namespace, and the ancestors that they need.
    fn prune(&self, py: Python<'_>, thread: &str, keep: usize) -> PyResult<u64> {
        self.released(py, |threads| threads.prune(thread, keep))
    }

    /// Removes the values of removed checkpoints that are still there.
    fn flush_removals(&self, py: Python<'_>) -> PyResult<()> {
        self.released(py, milepost::Threads::flush_removals)
    }

    /// Fails in a process that a fork created.
    fn check_process(&self) -> PyResult<()> {
        self.threads.check_process()
    }
}

/// A checkpoint of a thread, without its values.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct ThreadEntry {
    entry: milepost::ThreadEntry,
}

#[pymethods]
impl ThreadEntry {
    #[getter]
    fn thread(&self) -> &str {
        self.entry.thread()
    }

    #[getter]
    fn namespace(&self) -> &str {
        &self.entry.position().namespace
    }

    #[getter]
    fn id(&self) -> &str {
        &self.entry.position().id
    }

    #[getter]
    fn parent(&self) -> Option<&str> {
        self.entry.position().parent.as_deref()
    }

    /// The id of the checkpoint in Milepost.
    #[getter]
    fn snapshot_id(&self) -> &str {
        self.entry.snapshot_id().as_str()
    }
}

/// Everything about a checkpoint of a thread.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct LoadedCheckpoint {
    loaded: LoadedThread,
}

#[pymethods]
impl LoadedCheckpoint {
    #[getter]
    fn checkpoint<'py>(&self, py: Python<'py>) -> TypedOut<'py> {
        typed_out(py, self.loaded.checkpoint().clone())
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> TypedOut<'py> {
        typed_out(py, self.loaded.metadata().clone())
    }

    /// Name, encoding and bytes of each value.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Vec<(String, String, Bound<'py, PyBytes>)> {
        let value = |(name, value): &(String, TypedValue)| {
            (name.clone(), value.type_tag().clone(), PyBytes::new(py, value.bytes()))
        };
        self.loaded.values().iter().map(value).collect()
    }

    #[getter]
    fn writes<'py>(&self, py: Python<'py>) -> Vec<WriteOut<'py>> {
        self.loaded.writes().iter().map(|write| write_out(py, write)).collect()
    }
}

/// A list of checkpoints, read page by page.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct ThreadEntries {
    list: Handle<Arc<Mutex<ThreadList>>>,
}

#[pymethods]
impl ThreadEntries {
    fn __iter__(list: PyRef<'_, Self>) -> PyRef<'_, Self> {
        list
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ThreadEntry>> {
        let list = self.list.get()?;
        let next = released(py, move || list.lock().unwrap_or_else(PoisonError::into_inner).next());
        Ok(next.transpose().or_raise()?.map(|entry| ThreadEntry { entry }))
    }
}
