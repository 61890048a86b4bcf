"""A system under test of `cargo xtask bench peers`: LangGraph's savers and MilepostSaver.

Usage: worker.py SYSTEM PLACE. Reads one command as JSON per line and answers each with one line, which contains the
time of each operation in nanoseconds.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

from langgraph.checkpoint.base import Checkpoint, empty_checkpoint


def open_saver(system: str, place: str) -> tuple[Any, Any]:
    """The saver, and the connection that must be closed at the end."""
    if system == "milepost":
        from milepost.langgraph import MilepostSaver

        ours = MilepostSaver.from_conn_string(place)
        return ours, ours
    if system == "langgraph-sqlite":
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        # As `SqliteSaver.from_conn_string` connects. The saver turns on the write-ahead log.
        connection = sqlite3.connect(place, check_same_thread=False)
        saver = SqliteSaver(connection)
        saver.setup()
        if connection.execute("PRAGMA synchronous").fetchone() != (2,):
            raise SystemExit("the saver is not durable")
        return saver, connection
    if system == "langgraph-postgres":
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row

        # As `PostgresSaver.from_conn_string` connects.
        server: Any = psycopg.connect(place, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        postgres = PostgresSaver(server)
        try:
            postgres.setup()
        except psycopg.errors.UniqueViolation:
            pass  # Another worker created the tables at the same time.
        return postgres, server
    raise SystemExit(f"unknown system {system}")


class Threads:
    """The newest checkpoint and the number of steps of each thread."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.newest: dict[str, tuple[str | None, int]] = {}

    def checkpoint(self, thread: str, state: Any) -> Checkpoint:
        step = self.newest.get(thread, (None, 0))[1]
        version = f"{step + 1:032}.0"
        new = empty_checkpoint()
        new["channel_values"] = {"state": state}
        new["channel_versions"] = {"state": version}
        new["versions_seen"] = {"step": {"state": version}}
        return new

    def save(self, thread: str, state: Any) -> int:
        parent, step = self.newest.get(thread, (None, 0))
        new = self.checkpoint(thread, state)
        configurable = {"thread_id": thread, "checkpoint_ns": ""}
        if parent is not None:
            configurable["checkpoint_id"] = parent
        metadata = {"source": "loop", "step": step, "parents": {}}
        start = time.monotonic_ns()
        self.saver.put({"configurable": configurable}, new, metadata, dict(new["channel_versions"]))
        took = time.monotonic_ns() - start
        self.newest[thread] = (new["id"], step + 1)
        return took

    def fill(self, thread: str, count: int, state: Any) -> None:
        """Adds rows in one transaction, as the saver would write them one by one."""
        from langgraph.checkpoint.base.id import uuid6

        rows = []
        parent, step = self.newest.get(thread, (None, 0))
        for _ in range(count):
            new = self.checkpoint(thread, state)
            new["id"] = str(uuid6(clock_seq=step))
            kind, blob = self.saver.serde.dumps_typed(new)
            metadata = json.dumps({"source": "loop", "step": step, "parents": {}}).encode()
            rows.append((thread, "", new["id"], parent, kind, blob, metadata))
            parent, step = new["id"], step + 1
        self.newest[thread] = (parent, step)
        columns = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
        with self.saver.conn as connection:
            connection.executemany(f"INSERT INTO checkpoints ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def timed(call: Any) -> tuple[int, Any]:
    start = time.monotonic_ns()
    result = call()
    return time.monotonic_ns() - start, result


def answer(threads: Threads, resource: Any, command: dict[str, Any]) -> dict[str, Any]:
    saver, thread = threads.saver, command.get("run", "bench")
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    match command["do"]:
        case "save":
            return {"times": [threads.save(thread, json.loads(command["state"]))]}
        case "latest":
            reads = [timed(lambda: saver.get_tuple(config)) for _ in range(command["count"])]
            return {"times": [took for took, _ in reads], "count": len(reads[0][1].checkpoint["channel_values"])}
        case "list":
            limit = command["limit"]
            reads = [timed(lambda: list(saver.list(config, limit=limit))) for _ in range(command["count"])]
            return {"times": [took for took, _ in reads], "count": len(reads[0][1])}
        case "fill":
            threads.fill(thread, command["count"], json.loads(command["state"]))
        case "repeat":
            return repeat(threads, thread, command)
        case "delete":
            for run in command["runs"]:
                saver.delete_thread(run)
        case "close":
            resource.close()
        case other:
            raise ValueError(f"unknown command {other}")
    return {}


def repeat(threads: Threads, thread: str, command: dict[str, Any]) -> dict[str, Any]:
    states = [json.loads(state) for state in command["states"]]
    end = time.monotonic() + command.get("ms", 3_600_000) / 1000
    times: list[int] = []
    failed = 0
    while time.monotonic() < end and len(times) + failed < command.get("count", sys.maxsize):
        try:
            times.append(threads.save(thread, states[len(times) % len(states)]))
        except Exception as error:  # A store that is busy for too long.
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            failed += 1
    return {"times": times, "failed": failed}


def main() -> None:
    saver, resource = open_saver(sys.argv[1], sys.argv[2])
    threads = Threads(saver)
    print("{}", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        # Garbage of the parsed command is collected here, not within the operation.
        gc.collect(0)
        print(json.dumps(answer(threads, resource, command)), flush=True)


if __name__ == "__main__":
    main()
