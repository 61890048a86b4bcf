"""What the conformance suite does not test: order, replacement, delta channels, keys, types, concurrency, visibility."""

# LangGraph's own types are incomplete, and tests rely on what the types leave open.
# pyright: basic, reportTypedDictNotRequiredAccess=false, reportIndexIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalSubscript=false, reportAttributeAccessIssue=false
# mypy: disable-error-code="arg-type,index,no-any-return,union-attr,var-annotated"

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import milepost
import pytest
from conftest import milepost_command, new_postgres_store
from conftest import run as run_program

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.langgraph import MilepostSaver


@pytest.fixture(params=["sqlite", "files", "postgres"])
def saver(request: pytest.FixtureRequest, project: Path) -> Iterator[MilepostSaver]:
    addresses = {"sqlite": "sqlite:checkpoints.db", "files": "files:store"}
    address = addresses.get(request.param) or new_postgres_store()
    with MilepostSaver.from_conn_string(address) as saver:
        yield saver


def place(thread: str, namespace: str = "", id: str | None = None) -> RunnableConfig:
    configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    if id is not None:
        configurable["checkpoint_id"] = id
    return {"configurable": configurable}


def checkpoint(id: str | None = None, **values: Any) -> Checkpoint:
    new = empty_checkpoint()
    new["id"] = id or str(uuid6())
    new["channel_values"] = values
    new["channel_versions"] = {name: 1 for name in values}
    return new


def metadata(step: int = 0, **more: Any) -> CheckpointMetadata:
    return {"source": "loop", "step": step, "parents": {}, **more}  # type: ignore[typeddict-item]


def put(
    saver: MilepostSaver,
    thread: str,
    id: str | None = None,
    *,
    parent: str | None = None,
    about: CheckpointMetadata | None = None,
    **values: Any,
) -> str:
    config = saver.put(place(thread, id=parent), checkpoint(id, **values), about or metadata(), {})
    return config["configurable"]["checkpoint_id"]


def ids(saver: MilepostSaver, thread: str, **arguments: Any) -> list[str]:
    return [one.checkpoint["id"] for one in saver.list(place(thread), **arguments)]


def test_values_come_back(saver: MilepostSaver) -> None:
    values = {
        "text": "日本語 \u0000 😀",
        "large": "x" * 200_000,
        "bytes": b"\x00\xff",
        "array": bytearray(b"abc"),
        "numbers": [0, -1, 2**63, 1.5, float("inf")],
        "none": None,
        "messages": [HumanMessage("hello", id="1"), AIMessage("hi", id="2")],
        "set": {1, 2},
        "uuid": uuid.UUID(int=7),
    }
    put(saver, "t", "1", **values)
    loaded = saver.get_tuple(place("t"))
    assert loaded is not None
    assert loaded.checkpoint["channel_values"] == values
    assert loaded.parent_config is None
    assert loaded.pending_writes == []
    assert saver.get_tuple(place("t", id="2")) is None
    assert saver.get_tuple(place("t", "other")) is None
    assert saver.get_tuple(place("other")) is None


def test_the_greatest_id_is_the_newest_whatever_the_order(saver: MilepostSaver) -> None:
    for id in ["b", "d", "a", "c"]:
        put(saver, "t", id)
    assert ids(saver, "t") == ["d", "c", "b", "a"]
    assert ids(saver, "t", before=place("t", id="c")) == ["b", "a"]
    assert ids(saver, "t", limit=1) == ["d"]
    assert ids(saver, "t", limit=0) == []
    assert [one.checkpoint["id"] for one in saver.list(place("t", id="c"))] == ["c"]
    newest = saver.get_tuple(place("t"))
    assert newest is not None and newest.checkpoint["id"] == "d"
    # The latest version of a checkpoint that is saved again.
    put(saver, "t", "b", n=2)
    again = saver.get_tuple(place("t", id="b"))
    assert again is not None and again.checkpoint["channel_values"] == {"n": 2}
    assert ids(saver, "t") == ["d", "c", "b", "a"]


def test_lists_can_be_used_while_others_read_and_write(saver: MilepostSaver) -> None:
    for n in range(30):
        put(saver, "t", f"{n:03}", about=metadata(n, colour="red" if n % 3 else "blue"))
    seen = []
    for one in saver.list(place("t"), filter={"colour": "blue", "source": "loop"}, limit=5):
        # LangGraph's own SQLite saver holds its lock here.
        assert saver.get_tuple(one.config) is not None
        put(saver, "t", f"new-{len(seen)}")
        seen.append(one.metadata["step"])
    assert seen == [27, 24, 21, 18, 15]
    assert len(list(saver.list(None))) == 35
    assert list(saver.list(place("t"), filter={"colour": "green"})) == []
    # What is absent is not None.
    assert list(saver.list(place("t"), filter={"size": None})) == []


def test_writes_are_ordered_and_kept(saver: MilepostSaver) -> None:
    config = place("t", id="1")
    # Before their checkpoint.
    saver.put_writes(config, [("c", "b1"), ("d", "b2")], "task-b", "path-2")
    saver.put_writes(config, [("c", "a1")], "task-c", "path-1")
    put(saver, "t", "1")
    saver.put_writes(config, [("c", "ignored")], "task-c", "path-1")
    saver.put_writes(config, [("__error__", "first")], "task-c", "path-1")
    saver.put_writes(config, [("__error__", "second")], "task-c", "path-1")
    loaded = saver.get_tuple(place("t"))
    assert loaded is not None
    assert loaded.pending_writes == [
        ("task-c", "__error__", "second"),
        ("task-c", "c", "a1"),
        ("task-b", "c", "b1"),
        ("task-b", "d", "b2"),
    ]
    # Special writes among others do not replace what is there.
    saver.put_writes(config, [("c", "ignored"), ("__error__", "ignored")], "task-c", "path-1")
    again = saver.get_tuple(place("t"))
    assert again is not None and again.pending_writes == loaded.pending_writes
    with pytest.raises(ValueError, match="checkpoint_id"):
        saver.put_writes(place("t"), [("c", 1)], "task")


def test_places_have_the_types_that_langgraph_gives_them(saver: MilepostSaver) -> None:
    put(saver, 7, "1", n=1)
    config = saver.put(place("7", "child", "1"), checkpoint("2"), metadata(), {})
    for thread in (7, "7"):
        newest = saver.get_tuple({"configurable": {"thread_id": thread}})
        assert newest is not None and newest.config == place("7", id="1")
        assert [one.checkpoint["id"] for one in saver.list({"configurable": {"thread_id": thread}})] == ["2", "1"]
    child = saver.get_tuple(config)
    # The parent is in the same namespace.
    assert child is not None and child.parent_config == place("7", "child", "1")
    assert saver.get_delta_channel_history(config=place("other"), channels=["c"]) == {"c": {"writes": []}}


def test_a_thread_cannot_be_named_like_the_run_of_another_one(saver: MilepostSaver) -> None:
    put(saver, "user@example.org", "1", secret="of the user")
    for prefix in ("", "-"):
        other = prefix + "userexample.org-ae7d08f9919229032a15ecd822cb331f"
        assert saver.get_tuple(place(other)) is None
        assert ids(saver, other) == []
        put(saver, other, "2")
        saver.delete_thread(other)
    assert ids(saver, "user@example.org") == ["1"]


def test_metadata_comes_from_the_call_and_the_configuration(saver: MilepostSaver) -> None:
    config = place("t")
    config["metadata"] = {"user": "ada"}
    new = checkpoint("1", n=1)
    # LangGraph also passes objects here.
    invocation: Any = uuid.UUID(int=7)
    saver.put(config, new, {"run_id": invocation}, {})
    assert new["channel_values"] == {"n": 1}
    loaded = saver.get_tuple(place("t"))
    assert loaded is not None and dict(loaded.metadata)["user"] == "ada"
    (listed,) = saver._store.list(run="thread-t")
    assert listed.summary == "Checkpoint"
    saver.delete_for_runs([invocation])
    assert saver.get_tuple(place("t")) is None


def test_one_id_is_no_list_of_ids(saver: MilepostSaver) -> None:
    put(saver, "1", "1", about=metadata(run_id="1"))
    with pytest.raises(TypeError, match="thread_ids must be a list"):
        saver.prune("article-1", strategy="delete")
    with pytest.raises(TypeError, match="run_ids must be a list"):
        saver.delete_for_runs("run-1")
    assert ids(saver, "1") == ["1"]


def test_versions_increase_and_differ_between_writers(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        version = None
        for _ in range(12):
            earlier, version = version, saver.get_next_version(version)
            assert earlier is None or version > earlier
            # Another writer.
            assert saver.get_next_version(earlier) != version
        lengths = {len(saver.get_next_version(None)) for _ in range(200)}
        assert len(lengths) == 1, "versions are compared as texts"
        # A graph whose earlier saver counted with numbers.
        assert saver.get_next_version(41).startswith(f"{42:032}.")


def test_pruning_does_not_empty_delta_channels(saver: MilepostSaver) -> None:
    def delta(step: int) -> CheckpointMetadata:
        return metadata(step, counters_since_delta_snapshot={"log": [step, step]})

    put(saver, "t", "0", plain=0)
    put(saver, "t", "1", parent="0", log=["seed"], plain=1)
    for n in range(2, 6):
        saver.put_writes(place("t", id=str(n - 1)), [("log", f"w{n - 1}")], "task", "path")
        put(saver, "t", str(n), parent=str(n - 1), about=delta(n), plain=n)
    saver.put_writes(place("t", id="5"), [("log", "pending")], "task", "path")

    def history() -> Any:
        return saver.get_delta_channel_history(config=place("t"), channels=["log", "unknown"])

    expected = {
        "log": {"seed": ["seed"], "writes": [("task", "log", f"w{n}") for n in range(1, 5)]},
        "unknown": {"writes": []},
    }
    assert history() == expected
    saver.prune(["t", "missing"], strategy="keep_latest")
    assert history() == expected
    assert ids(saver, "t") == ["5", "4", "3", "2", "1"]
    assert saver.get_delta_channel_history(config=place("t"), channels=[]) == {}
    # A head that contains the value needs no ancestor.
    put(saver, "t", "6", parent="5", log=["all"])
    saver.prune(["t"])
    assert ids(saver, "t") == ["6"]
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="all")
    saver.prune(["t"], strategy="delete")
    assert ids(saver, "t") == []


def test_copies_share_values_and_are_independent(saver: MilepostSaver) -> None:
    for n in range(20):
        put(saver, "a", f"{n:02}", about=metadata(n, run_id=f"run-{n % 2}"), text="x" * 50_000)
    saver.put_writes(place("a", id="19"), [("c", "written")], "task")
    saver.copy_thread("a", "b")
    saver.delete_for_runs(["run-0"])
    assert len(ids(saver, "a")) == len(ids(saver, "b")) == 10
    saver.delete_thread("a")
    saver.delete_thread("a")
    assert ids(saver, "a") == []
    newest = saver.get_tuple(place("b"))
    assert newest is not None
    assert newest.pending_writes == [("task", "c", "written")]
    assert newest.config["configurable"]["thread_id"] == "b"


def test_threads_write_at_the_same_time(saver: MilepostSaver) -> None:
    errors: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            parent = None
            for n in range(10):
                id = f"{n:03}-{writer}"
                put(saver, "shared", id, parent=parent, n=n)
                saver.put_writes(place("shared", id=id), [("c", n)], f"task-{writer}")
                parent = id
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    found = {one.checkpoint["id"]: one for one in saver.list(place("shared"))}
    assert len(found) == 40
    for writer in range(4):
        # Each writer's chain is whole.
        id: str | None = f"009-{writer}"
        for _ in range(10):
            assert id is not None
            one = found[id]
            assert one.pending_writes and one.pending_writes[0][0] == f"task-{writer}"
            id = one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None
        assert id is None


def test_async_calls_do_not_block_the_loop_and_survive_cancellation(saver: MilepostSaver) -> None:
    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        for n in range(10):
            await saver.aput(place("t"), checkpoint(f"{n:02}", text="y" * 100_000), metadata(n), {})
            await saver.aput_writes(place("t", id=f"{n:02}"), [("c", n)], "task")
        assert ticks > 5
        cancelled = asyncio.create_task(saver.aput(place("t"), checkpoint("99", n=1), metadata(), {}))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        found = [one.checkpoint["id"] async for one in saver.alist(place("t"), limit=3)]
        assert found[-1] in ("07", "08")
        ticking.cancel()
        await saver.aprune(["t"])
        assert await saver.aget_tuple(place("t")) is not None
        await saver.acopy_thread("t", "u")
        history = await saver.aget_delta_channel_history(config=place("u"), channels=["c"])
        assert history == {"c": {"writes": []}}
        await saver.aprune(["u"], strategy="delete")
        assert await saver.aget_tuple(place("u")) is None
        await saver.adelete_thread("t")
        await saver.adelete_for_runs(["none"])
        assert await saver.aget_tuple(place("t")) is None

    asyncio.run(main())


def test_a_key_encrypts_everything_that_was_said(project: Path) -> None:
    key = bytes(32)
    secret = "the password is swordfish"
    with MilepostSaver.from_conn_string("sqlite:s.db", key=key) as saver:
        put(saver, "t", "1", text=secret, long=secret * 1000, about=metadata(custom=secret))
        saver.put_writes(place("t", id="1"), [("c", secret)], "task")
        loaded = saver.get_tuple(place("t"))
        assert loaded is not None and loaded.checkpoint["channel_values"]["text"] == secret
    stored = b"".join(path.read_bytes() for path in project.rglob("s.db*") if path.is_file())
    assert b"swordfish" not in stored
    for wrong in (None, bytes([1]) * 32):
        with (
            MilepostSaver.from_conn_string("sqlite:s.db", key=wrong) as saver,
            pytest.raises(milepost.MilepostError) as refused,
        ):
            saver.get_tuple(place("t"))
        assert refused.value.reason == "thread_key_invalid"
    # What was saved without a key may have been written by anyone.
    with MilepostSaver.from_conn_string("sqlite:plain.db") as saver:
        put(saver, "t", "1", text="small")
    with (
        MilepostSaver.from_conn_string("sqlite:plain.db", key=key) as saver,
        pytest.raises(milepost.MilepostError) as refused,
    ):
        saver.get_tuple(place("t"))
    assert refused.value.reason == "thread_key_invalid"
    with pytest.raises(milepost.InvalidValue, match="32 bytes"):
        MilepostSaver.from_conn_string("sqlite:s.db", key=b"short")


class Custom:
    """A class that is not allowed unless a program says so."""

    def __init__(self, text: str) -> None:
        self.text = text
        Path("executed").write_text(text)

    def __reduce__(self) -> Any:
        return (Custom, ("pickled",))


def test_only_allowed_types_are_loaded(project: Path) -> None:
    from pydantic import BaseModel

    class Model(BaseModel):
        name: str

    global Allowed
    Allowed = Model
    Model.__qualname__ = Model.__name__ = "Allowed"
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        put(saver, "t", "1", value=Model(name="n"))
        loaded = saver.get_tuple(place("t"))
        assert loaded is not None and loaded.checkpoint["channel_values"]["value"] == {"name": "n"}
        with pytest.raises(TypeError):
            put(saver, "t", "2", value=Custom("made"))
        # Pickled bytes in a store that someone prepared are not loaded.
        threads = milepost.open(store="sqlite:s.db").threads()
        import pickle

        Path("executed").unlink()
        bytes_ = pickle.dumps(Custom("attack"))
        Path("executed").unlink()
        empty = saver.serde.dumps_typed({})
        threads.put(
            thread="evil",
            namespace="",
            id="1",
            parent=None,
            invocation=None,
            checkpoint=empty,
            metadata=empty,
            values=[("v", "pickle", bytes_)],
            derived=[],
            summary=None,
        )
        with pytest.raises(NotImplementedError):
            saver.get_tuple(place("evil"))
        assert not Path("executed").exists()
    with MilepostSaver.from_conn_string("sqlite:s.db", allowed_types=[Model]) as saver:
        loaded = saver.get_tuple(place("t", id="1"))
        assert loaded is not None and loaded.checkpoint["channel_values"]["value"] == Model(name="n")


Allowed: Any = None


def test_constructors_in_json_are_not_called(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        put(saver, "t", "1")
        said = {"lc": 2, "type": "constructor", "id": ["pathlib", "PurePath"], "args": ["a"]}
        value = ("", "task", 0, "c", "json", json.dumps(said).encode())
        threads = milepost.open(store="sqlite:s.db").threads()
        threads.put_writes(thread="t", namespace="", id="1", writes=[value], replace=False)
        loaded = saver.get_tuple(place("t"))
        assert loaded is not None and loaded.pending_writes == [("task", "c", said)]


class CountingSerializer(JsonPlusSerializer):
    """Counts the checkpoints that it loads."""

    loaded = 0

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        value = super().loads_typed(data)
        if isinstance(value, dict) and "channel_versions" in value:
            self.loaded += 1
        return value


def test_a_serializer_of_the_program_loads_only_what_is_needed(project: Path) -> None:
    serde = CountingSerializer()
    with MilepostSaver.from_conn_string("sqlite:s.db", serde=serde) as saver:
        for n in range(20):
            put(saver, "t", f"{n:02}")
        next(saver.list(place("t")))
        assert serde.loaded == 1

        async def main() -> None:
            async for one in saver.alist(place("t")):
                assert one.checkpoint["id"] == "19"
                break

        asyncio.run(main())
        assert serde.loaded == 2


def test_the_store_and_the_project_are_those_that_the_program_names(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MilepostSaver() as saver:
        put(saver, "t", "1")
    assert [run.run_id for run in milepost.open().runs()] == ["thread-t"]
    opened: list[str | None] = []
    real = milepost.open

    def remember(*, store: str | None = None, project: str | None = None) -> milepost.Milepost:
        opened.append(project)
        return real(store=store)

    monkeypatch.setattr(milepost, "open", remember)
    MilepostSaver.from_conn_string("sqlite:s.db").close()
    monkeypatch.setenv("MILEPOST_PROJECT", "of-environment")
    MilepostSaver.from_conn_string("sqlite:s.db").close()
    MilepostSaver.from_conn_string("sqlite:s.db", project="of-call").close()
    assert opened == ["langgraph", "of-environment", "of-call"]


def workers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("milepost")]


def wait_for_end(threads: list[threading.Thread]) -> None:
    assert threads
    for one in threads:
        one.join(20)
        assert not one.is_alive()


def test_a_closed_saver_leaves_no_workers_and_no_values(project: Path) -> None:
    saver = MilepostSaver.from_conn_string("files:store")

    async def main() -> list[threading.Thread]:
        async with saver:
            await saver.aget_tuple(place("t"))
            return workers()

    wait_for_end(asyncio.run(main()))
    # It can be used again.
    with saver:
        asyncio.run(saver.aget_tuple(place("t")))
        started = workers()
        for thread in ("a", "b", "c"):
            put(saver, thread, "1", text=thread * 50_000)
        for thread in ("a", "b", "c"):
            saver.delete_thread(thread)
    wait_for_end(started)
    assert [path for path in Path("store").glob("**/blobs/**/*") if path.is_file()] == []
    saver.close()


def test_a_process_can_fork_while_others_save(project: Path) -> None:
    run_program(
        """
        import os, threading, time, warnings
        # Newer versions of Python warn about every fork of a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        from langgraph.checkpoint.base import empty_checkpoint
        from milepost.langgraph import MilepostSaver

        def put(saver, thread, id):
            new = empty_checkpoint()
            new["id"] = id
            saver.put({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, new, {"step": 1}, {})

        saver = MilepostSaver.from_conn_string("sqlite:s.db")
        stop = threading.Event()

        def work(thread):
            n = 0
            while not stop.is_set():
                put(saver, thread, f"{n:06}")
                n += 1

        # There is hardly a moment in which none of them saves.
        workers = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
        for worker in workers:
            worker.start()
        for n in range(10):
            start = time.monotonic()
            child = os.fork()
            if child == 0:
                with MilepostSaver.from_conn_string("sqlite:s.db") as own:
                    put(own, "child", f"{n:06}")
                os._exit(0)
            # A fork that waits 15 s gives up and forks while others save.
            assert time.monotonic() - start < 10
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for worker in workers:
            worker.join()
        saver.close()
        """
    )
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        assert len(ids(saver, "child")) == 10


def edit(*statements: str) -> None:
    """Change the tables of the store `s.db`."""
    with contextlib.closing(sqlite3.connect("s.db")) as database:
        for statement in statements:
            database.execute(statement)
            database.commit()


def test_numbers_that_no_store_has_are_damage(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        put(saver, "t", "1")
    edit(f"UPDATE run SET stamp = {2**63 - 1}")
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        for _ in range(2):
            with pytest.raises(milepost.Damaged):
                put(saver, "t", "2")
    assert list(project.glob("*.damaged-*")) == []


def test_a_damaged_checkpoint_is_not_taken_for_a_removed_one(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        put(saver, "t", "1", text="x" * 50_000)
    entry = milepost.open(store="sqlite:s.db").threads().find("t", "", "1")
    assert entry is not None
    id = entry.snapshot_id.encode()
    edit("DELETE FROM blob", "PRAGMA wal_checkpoint(TRUNCATE)")
    stored = Path("s.db").read_bytes()
    # One of the places is the index of ids, which then no longer finds the checkpoint.
    starts = [at for at in range(len(stored)) if stored.startswith(id, at)]
    assert len(starts) > 1
    for start in starts:
        last = start + len(id) - 1
        Path("s.db").write_bytes(stored[:last] + b"!" + stored[last + 1 :])
        with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
            with pytest.raises(milepost.Damaged):
                saver.get_tuple(place("t"))
            with pytest.raises(milepost.Damaged):
                list(saver.list(place("t")))


def test_a_limit_keeps_the_newest_checkpoints(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db", keep_newest=5) as saver:
        for n in range(100):
            put(saver, "t", f"{n:03}", text=f"{n}" * 2000)
        kept = ids(saver, "t")
        assert 5 <= len(kept) <= 5 + 32
        assert kept[0] == "099"
    with pytest.raises(ValueError, match="at least 1"):
        MilepostSaver.from_conn_string("sqlite:s.db", keep_newest=0)
    # Retention of the project does not touch threads: ancestors may be needed.
    Path("milepost.toml").write_text("[retain]\nkeep_last = 1\n")
    milepost_command("--store", "sqlite:s.db", "prune", "--yes", MILEPOST_TRUST=str(project))
    Path("milepost.toml").unlink()
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        assert ids(saver, "t") == kept


def test_a_thread_is_a_run_for_the_command(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        for n in range(3):
            put(saver, "support-42", f"{n}", about=metadata(n))

    def command(*arguments: str) -> str:
        return milepost_command("--store", "sqlite:s.db", *arguments)

    (run,) = json.loads(command("runs", "--json"))["runs"]
    assert run["run_id"] == "thread-support-42"
    assert run["title"] == "support-42"
    listed = json.loads(command("list", "--json", "--run", "thread-support-42"))
    assert [one["task_summary"] for one in listed["checkpoints"]] == [f"Step {n} (loop)" for n in (2, 1, 0)]
    assert "support-42" in command("resume", "thread-support-42")
    shown = json.loads(command("show", "--json", "thread-support-42@1"))
    assert shown["checkpoint"]["thread"]["id"] == "0"
    assert "checkpoint 0" in command("show", "thread-support-42@1")
    # Only the program can continue its threads, so they are not offered.
    assert milepost.open(store="sqlite:s.db").resume() == []
    assert json.loads(command("verify", "--json"))["damaged"] == []


def test_a_damaged_value_is_reported_and_others_still_load(project: Path) -> None:
    with MilepostSaver.from_conn_string("files:store") as saver:
        put(saver, "t", "1", text="first " * 500)
        put(saver, "t", "2", text="second " * 5000)
    blobs = sorted((p for p in Path("store").glob("**/blobs/**/*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(blobs[-1].read_bytes())
    data[len(data) // 2] ^= 1
    blobs[-1].chmod(0o600)
    blobs[-1].write_bytes(data)
    with MilepostSaver.from_conn_string("files:store") as saver:
        with pytest.raises(milepost.Damaged):
            for id in ("1", "2"):
                saver.get_tuple(place("t", id=id))
        intact = [id for id in ("1", "2") if is_intact(saver, id)]
        assert len(intact) == 1
        put(saver, "t", "3", text="third")
    report = milepost.open(store="files:store").verify()
    assert not report.is_intact


def is_intact(saver: MilepostSaver, id: str) -> bool:
    try:
        return saver.get_tuple(place("t", id=id)) is not None
    except milepost.Damaged:
        return False


def test_a_program_may_change_its_folder(project: Path) -> None:
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        put(saver, "t", "1")
        Path("elsewhere").mkdir()
        os.chdir("elsewhere")
        put(saver, "t", "2")
        assert ids(saver, "t") == ["2", "1"]
    assert list(Path().iterdir()) == []


def test_processes_share_a_store(project: Path) -> None:
    program = """
import sys
from milepost.langgraph import MilepostSaver
from langgraph.checkpoint.base import empty_checkpoint
with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
    for n in range(20):
        new = empty_checkpoint()
        new["id"] = f"{n:03}-{sys.argv[1]}"
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, new, {"step": n}, {})
"""
    started = time.monotonic()
    processes = [subprocess.Popen([sys.executable, "-c", program, str(n)]) for n in range(4)]
    assert [process.wait(timeout=100) for process in processes] == [0] * 4
    assert time.monotonic() - started < 100
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        assert len(ids(saver, "t")) == 80
