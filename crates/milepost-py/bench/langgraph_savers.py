"""Compares MilepostSaver with LangGraph's SQLite saver: bytes on disk, time of a durable put and of a graph's step, and
reads in a large store.

Both savers take turns, on the same disk and in the same process. Run it with `cargo xtask python bench`.
"""

from __future__ import annotations

import operator
import random
import sqlite3
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from milepost.langgraph import MilepostSaver

STEP = 200
LETTERS = string.ascii_letters + string.digits + " ."


class Thread:
    """A thread whose list of messages grows by `STEP` bytes with every checkpoint."""

    def __init__(self, saver: Any, name: str, length: int = 0) -> None:
        self.saver, self.name = saver, name
        self.chance = random.Random(name)
        self.messages: list[Any] = []
        self.parent: str | None = None
        self.step = 0
        while len(self.messages) * STEP < length:
            self.grow()

    def grow(self) -> None:
        # Text that hardly compresses.
        text = "".join(self.chance.choices(LETTERS, k=STEP))
        self.messages.append(HumanMessage(text, id=f"{len(self.messages):08}"))

    def next(self) -> Checkpoint:
        self.grow()
        new = empty_checkpoint()
        new["channel_values"] = {"messages": list(self.messages), "branch:to:step": None}
        version = f"{self.step:032}.0"
        new["channel_versions"] = {"messages": version, "branch:to:step": version}
        new["versions_seen"] = {"step": {"branch:to:step": version}}
        return new

    def put(self, checkpoint: Checkpoint) -> None:
        configurable = {"thread_id": self.name, "checkpoint_ns": ""}
        if self.parent is not None:
            configurable["checkpoint_id"] = self.parent
        metadata: Any = {"source": "loop", "step": self.step, "parents": {}}
        versions = {"messages": checkpoint["channel_versions"]["messages"]}
        self.saver.put({"configurable": configurable}, checkpoint, metadata, versions)
        self.parent, self.step = checkpoint["id"], self.step + 1


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def open_both(folder: Path) -> tuple[MilepostSaver, SqliteSaver, sqlite3.Connection]:
    for name in ("milepost", "langgraph"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    ours = MilepostSaver.from_conn_string(f"sqlite:{folder}/milepost/s.db")
    connection = sqlite3.connect(folder / "langgraph/s.db", check_same_thread=False)
    return ours, SqliteSaver(connection), connection


def bytes_on_disk(folder: Path, steps: int) -> float:
    ours, theirs, connection = open_both(folder)
    threads = [Thread(ours, "t"), Thread(theirs, "t")]
    for _ in range(steps):
        for thread in threads:
            thread.put(thread.next())
    ours.close()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    a, b = size(folder / "milepost"), size(folder / "langgraph")
    print(f"bytes on disk after {steps} steps: {a:,} and {b:,}: {b / a:.1f} times fewer")
    return b / a


def durable_put(folder: Path, length: int, rounds: int) -> float:
    ours, theirs, connection = open_both(folder)
    times: list[list[float]] = [[], []]
    for n in range(rounds // 4):
        # A new thread after some steps, so that the list has the same length throughout.
        threads = [Thread(ours, f"t{n}", length), Thread(theirs, f"t{n}", length)]
        for which, thread in enumerate(threads):
            thread.put(thread.next())
        for step in range(4):
            for which in (0, 1) if step % 2 else (1, 0):
                checkpoint = threads[which].next()
                start = time.perf_counter()
                threads[which].put(checkpoint)
                times[which].append(time.perf_counter() - start)
    a, b = (statistics.median(values) * 1000 for values in times)
    means = [statistics.mean(values) * 1000 for values in times]
    print(
        f"durable put with a list of {length // 1000} KB: median {a:.2f} and {b:.2f} ms, ratio {a / b:.2f}; "
        f"mean {means[0]:.2f} and {means[1]:.2f} ms, ratio {means[0] / means[1]:.2f}"
    )
    ours.close()
    connection.close()
    return a / b


class Log(TypedDict):
    """The state of a graph that appends a text with every step."""

    lines: Annotated[list[str], operator.add]


def graph_step(folder: Path, length: int, rounds: int) -> float:
    """The time of a step of a graph, which saves the writes of a task and a checkpoint."""
    steps = 100
    ours, theirs, connection = open_both(folder)
    builder = StateGraph(Log)
    builder.add_node("step", lambda state: {"lines": ["x" * STEP]})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if len(state["lines"]) % steps else END)
    graphs = [builder.compile(checkpointer=saver) for saver in (ours, theirs)]
    times: list[list[float]] = [[], []]
    for n in range(rounds):
        for which in (0, 1) if n % 2 else (1, 0):
            config: Any = {"configurable": {"thread_id": f"t{n}"}, "recursion_limit": 2 * steps}
            start = time.perf_counter()
            graphs[which].invoke({"lines": ["y" * length]}, config, durability="sync")
            times[which].append((time.perf_counter() - start) / steps)
    a, b = (statistics.median(values) * 1000 for values in times)
    print(f"step of a graph with {length // 1000} KB: median {a:.2f} and {b:.2f} ms, ratio {a / b:.2f}")
    ours.close()
    connection.close()
    return a / b


def reads(folder: Path, counts: tuple[int, int]) -> tuple[float, float]:
    savers = []
    for count in counts:
        saver = MilepostSaver.from_conn_string(f"sqlite:{folder}/{count}/s.db")
        # Every thread has as many checkpoints in both stores.
        number = count // 100
        many = [Thread(saver, f"t{n}") for n in range(number)]
        for n in range(count):
            thread = many[n % number]
            # Lists of the same length in both stores.
            thread.messages = thread.messages[-4:]
            thread.put(thread.next())
        savers.append((saver, number))

    def time_of(call: Callable[[Any, dict[str, Any]], Any], rounds: int = 400) -> list[float]:
        chance = random.Random(1)
        times: list[list[float]] = [[], []]
        for _ in range(rounds):
            for which, (saver, number) in enumerate(savers):
                config = {"configurable": {"thread_id": f"t{chance.randrange(number)}", "checkpoint_ns": ""}}
                start = time.perf_counter()
                call(saver, config)
                times[which].append(time.perf_counter() - start)
        return [statistics.median(values) * 1e6 for values in times]

    ratios = []
    for name, call in (
        ("get_tuple", lambda saver, config: saver.get_tuple(config)),
        ("list(limit=10)", lambda saver, config: list(saver.list(config, limit=10))),
        ("list(limit=10) of all namespaces", lambda saver, config: list(
            saver.list({"configurable": {"thread_id": config["configurable"]["thread_id"]}}, limit=10)
        )),
    ):
        small, large = time_of(call)
        print(f"{name}: {small:.0f} us with {counts[0]:,} checkpoints, {large:.0f} us with {counts[1]:,}: {large / small:.2f}")
        ratios.append(large / small)
    return max(ratios[:2]), ratios[2]


def main() -> None:
    short = "--short" in sys.argv
    steps, rounds, counts = (200, 30, (200, 2000)) if short else (1000, 200, (1_000, 100_000))
    failed = []
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        if (ratio := bytes_on_disk(folder / "bytes", steps)) < (4 if short else 10):
            failed.append(f"bytes on disk: {ratio:.1f} times fewer")
        for length in (2_000, 20_000, 200_000):
            ratio = durable_put(folder / f"put-{length}", length, rounds)
            if not short and ratio > 1:
                failed.append(f"durable put with {length} bytes: {ratio:.2f}")
        for length in (2_000, 200_000):
            graph_step(folder / f"step-{length}", length, 2 if short else 10)
        ratio, _ = reads(folder / "reads", counts)
        if ratio > 1.5 and not short:
            failed.append(f"reads: {ratio:.2f}")
    if failed:
        raise SystemExit("missed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
