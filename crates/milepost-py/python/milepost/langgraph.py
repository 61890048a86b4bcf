"""A checkpoint saver for LangGraph that stores threads in Milepost.

    from milepost.langgraph import MilepostSaver

    with MilepostSaver.from_conn_string("sqlite:checkpoints.db") as saver:
        graph = builder.compile(checkpointer=saver)

Each thread is a run of the store, so `milepost list`, `milepost resume` and `milepost ui` show it. One saver
serves synchronous and asynchronous graphs, and any number of threads and processes.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import milepost
from milepost._workers import Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self

    from milepost._milepost import ThreadEntry

__all__ = ["MilepostSaver"]

T = TypeVar("T")
AllowedType = Union[type, "tuple[str, str]"]

# Metadata that LangGraph counts for channels whose value is computed from an earlier value and the writes since.
_DERIVED = "counters_since_delta_snapshot"


class MilepostSaver(BaseCheckpointSaver[str]):
    """Saves the checkpoints of LangGraph graphs in a Milepost store.

    `store` is a store that :func:`milepost.open` returned; by default it is the store of the current project.
    `key` are 32 random bytes that encrypt all values and writes at rest. `keep_newest` keeps only that many of the
    newest checkpoints of each namespace; by default all are kept. `allowed_types` are classes, or pairs of module and
    name, whose objects may be loaded, in addition to the plain types and messages that
    LangGraph considers safe. With `serde`, that serializer alone decides what is loaded.
    """

    def __init__(
        self,
        store: milepost.Milepost | None = None,
        *,
        serde: SerializerProtocol | None = None,
        key: bytes | None = None,
        keep_newest: int | None = None,
        allowed_types: Iterable[AllowedType] = (),
    ) -> None:
        if serde is None:
            serde = JsonPlusSerializer(allowed_msgpack_modules=tuple(allowed_types) or None)
        super().__init__(serde=serde)
        if keep_newest is not None and keep_newest < 1:
            raise ValueError("keep_newest must be at least 1")
        self._store = store if store is not None else milepost.open()
        self._threads = self._store.threads(key=key, keep_newest=keep_newest)
        self._workers = Workers(8)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        serde: SerializerProtocol | None = None,
        key: bytes | None = None,
        keep_newest: int | None = None,
        allowed_types: Iterable[AllowedType] = (),
        project: str | None = None,
    ) -> Self:
        """A saver for the store at an address, such as `sqlite:checkpoints.db` or `postgres://host/database`.

        On a server, all savers with the same `project` have the same threads, whatever folder they run in. It is
        `langgraph` unless `MILEPOST_PROJECT` names another one.

        Use it as a context manager, with `with` or `async with`, or call :meth:`close` at the end.
        """
        project = project or os.environ.get("MILEPOST_PROJECT") or "langgraph"
        store = milepost.open(store=conn_string, project=project)
        return cls(store, serde=serde, key=key, keep_newest=keep_newest, allowed_types=allowed_types)

    # Life cycle

    def setup(self) -> None:
        """Do nothing: the store is created when it is opened."""

    def close(self) -> None:
        """Remove the values of deleted checkpoints that are still there, and end the workers of async calls."""
        self._threads.flush_removals()
        self._workers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._call(self.close)

    # Saving

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint. It is on disk when this returns."""
        thread, namespace, parent = _place(config)
        full_metadata = get_checkpoint_metadata(config, metadata)
        values = checkpoint["channel_values"]
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        invocation = cast(Any, full_metadata).get("run_id")
        self._threads.put(
            thread=thread,
            namespace=namespace,
            id=checkpoint["id"],
            parent=parent,
            invocation=None if invocation is None else str(invocation),
            checkpoint=self.serde.dumps_typed(rest),
            metadata=self.serde.dumps_typed(full_metadata),
            values=[(name, *self.serde.dumps_typed(value)) for name, value in values.items()],
            derived=list(cast(Any, full_metadata).get(_DERIVED) or ()),
            summary=_summary(full_metadata),
        )
        return _config(thread, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote after a checkpoint. It is on disk when this returns."""
        thread, namespace, id = _place(config)
        if id is None:
            raise ValueError("put_writes needs a checkpoint_id in the configuration")
        self._threads.put_writes(
            thread=thread,
            namespace=namespace,
            id=id,
            writes=[
                (task_path, task_id, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
                for index, (channel, value) in enumerate(writes)
            ],
            replace=all(channel in WRITES_IDX_MAP for channel, _ in writes),
        )

    def get_next_version(self, current: str | None, channel: None = None) -> str:
        """The next version of a channel: a number that increases, and a part that differs between writers."""
        if current is None:
            number = 0
        elif isinstance(current, int):
            number = current
        else:
            number = int(current.split(".")[0])
        return f"{number + 1:032}.{int.from_bytes(os.urandom(7), 'big') >> 3:016d}"

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of a thread, or the one with the configuration's `checkpoint_id`."""
        thread, namespace, id = _place(config)
        while (found := self._threads.find(thread, namespace, id)) is not None:
            # It may be removed before it is read.
            if (loaded := self._tuple(found)) is not None:
                return loaded
        return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, newest first. `filter` compares metadata, and `limit` counts what it lets through."""
        left = limit
        if left is not None and left <= 0:
            return
        for entry in self._entries(config, before):
            if filter:
                metadata = self.serde.loads_typed(self._threads.metadata(entry))
                if any(name not in metadata or metadata[name] != value for name, value in filter.items()):
                    continue
            loaded = self._tuple(entry)
            if loaded is None:
                continue
            yield loaded
            if left is not None:
                left -= 1
                if left == 0:
                    return

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel, the nearest earlier value and what was written since."""
        thread, namespace, id = _place(config)
        if not channels:
            return {}
        target = self._threads.find(thread, namespace, id)
        if target is None:
            return {channel: {"writes": []} for channel in channels}
        history: dict[str, DeltaChannelHistory] = {}
        for channel, (seed, writes) in self._threads.history(target, list(channels)).items():
            found: DeltaChannelHistory = {"writes": [self._write(write) for write in writes]}
            if seed is not None:
                found["seed"] = self.serde.loads_typed(seed)
            history[channel] = found
        return history

    def _entries(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Iterator[ThreadEntry]:
        place = config.get("configurable", {}) if config else {}
        thread = place.get("thread_id")
        return self._threads.list(
            thread=None if thread is None else str(thread),
            namespace=place.get("checkpoint_ns"),
            id=place.get("checkpoint_id"),
            before=get_checkpoint_id(before) if before else None,
        )

    def _tuple(self, entry: ThreadEntry) -> CheckpointTuple | None:
        loaded = self._threads.load(entry)
        if loaded is None:
            return None
        load = self.serde.loads_typed
        checkpoint = load(loaded.checkpoint)
        checkpoint["channel_values"] = {
            name: load((type_tag, value)) for name, type_tag, value in loaded.values
        }
        parent = entry.parent
        return CheckpointTuple(
            config=_config(entry.thread, entry.namespace, entry.id),
            checkpoint=checkpoint,
            metadata=load(loaded.metadata),
            parent_config=None if parent is None else _config(entry.thread, entry.namespace, parent),
            pending_writes=[self._write(write) for write in loaded.writes],
        )

    def _write(self, write: tuple[str, str, str, bytes]) -> tuple[str, str, Any]:
        task_id, channel, type_tag, value = write
        return task_id, channel, self.serde.loads_typed((type_tag, value))

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its checkpoints and writes."""
        self._threads.delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of these LangGraph runs, in all threads."""
        self._threads.delete_invocations([str(run_id) for run_id in _several(run_ids, "run_ids")])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another one. Values are shared, not copied."""
        self._threads.copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or with the strategy `delete` nothing.

        Ancestors from which the value of a delta channel is computed are kept.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f'strategy must be "keep_latest" or "delete", not {strategy!r}')
        for thread_id in _several(thread_ids, "thread_ids"):
            if strategy == "delete":
                self._threads.delete_thread(str(thread_id))
            else:
                self._threads.prune(str(thread_id), 1)

    # Async variants: each runs in a worker, so the event loop is never blocked.

    async def _call(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await self._workers.call(functools.partial(work, *args, **kwargs))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Like :meth:`put`."""
        return await self._call(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Like :meth:`put_writes`."""
        await self._call(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Like :meth:`get_tuple`."""
        return await self._call(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Like :meth:`list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)

        def next_one() -> CheckpointTuple | None:
            return next(found, None)

        while (one := await self._call(next_one)) is not None:
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        """Like :meth:`delete_thread`."""
        await self._call(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Like :meth:`delete_for_runs`."""
        await self._call(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Like :meth:`copy_thread`."""
        await self._call(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Like :meth:`prune`."""
        await self._call(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Like :meth:`get_delta_channel_history`."""
        return await self._call(self.get_delta_channel_history, config=config, channels=channels)


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    """The thread, the namespace and the checkpoint id of a configuration."""
    place = config.get("configurable", {})
    return str(place["thread_id"]), place.get("checkpoint_ns", ""), place.get("checkpoint_id")


def _config(thread: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}


def _several(ids: Sequence[str], name: str) -> Sequence[str]:
    """The ids. A single text is refused, because each of its characters would count as an id."""
    if isinstance(ids, str):
        raise TypeError(f"{name} must be a list of ids, not {ids!r}")
    return ids


def _summary(metadata: Mapping[str, Any]) -> str:
    """What a checkpoint is, for people."""
    source, step = metadata.get("source"), metadata.get("step")
    return f"Step {step} ({source})" if isinstance(step, int) and isinstance(source, str) else "Checkpoint"
