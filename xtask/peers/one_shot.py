"""One operation in a process of its own, for `cargo xtask bench peers`: what a script does that is started for each step.

Usage: one_shot.py SYSTEM PLACE save STATE-FILE | latest | list
"""

from __future__ import annotations

import json
import sys
from typing import Any

LIMIT = 50


def plain_sqlite(place: str, verb: str, arguments: list[str]) -> None:
    import sqlite3

    connection = sqlite3.connect(place, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, run TEXT NOT NULL, created_at TEXT NOT NULL, "
        "summary TEXT NOT NULL, state TEXT NOT NULL)"
    )
    if verb == "save":
        with open(arguments[0], encoding="utf-8") as file:
            state = json.load(file)["state"]
        connection.execute(
            "INSERT INTO checkpoint (run, created_at, summary, state) VALUES ('bench', datetime('now'), 'step', ?)",
            (json.dumps(state),),
        )
    elif verb == "latest":
        row = connection.execute("SELECT state FROM checkpoint ORDER BY id DESC LIMIT 1").fetchone()
        print(json.dumps(json.loads(row[0])))
    else:
        query = "SELECT id, run, created_at, summary FROM checkpoint ORDER BY id DESC LIMIT ?"
        for row in connection.execute(query, (LIMIT,)):
            print(*row, sep="\t")
    connection.close()


def saver_of(system: str, place: str) -> Any:
    if system == "langgraph-sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver.from_conn_string(place)
    if system == "langgraph-postgres":
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(place)
    raise SystemExit(f"unknown system {system}")


def langgraph(system: str, place: str, verb: str, arguments: list[str]) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    config: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    with saver_of(system, place) as saver:
        if verb == "save":
            with open(arguments[0], encoding="utf-8") as file:
                state = json.load(file)["state"]
            newest = saver.get_tuple(config)
            step = 0 if newest is None else newest.metadata["step"] + 1
            version = f"{step + 1:032}.0"
            new = empty_checkpoint()
            new["channel_values"] = {"state": state}
            new["channel_versions"] = {"state": version}
            config = config if newest is None else newest.config
            saver.put(config, new, {"source": "loop", "step": step, "parents": {}}, {"state": version})
        elif verb == "latest":
            print(json.dumps(saver.get_tuple(config).checkpoint["channel_values"]["state"]))
        else:
            for found in saver.list(config, limit=LIMIT):
                print(found.checkpoint["id"], found.checkpoint["ts"], found.metadata["step"], sep="\t")


def main() -> None:
    system, place, verb, *arguments = sys.argv[1:]
    if system == "plain-sqlite":
        plain_sqlite(place, verb, arguments)
    else:
        langgraph(system, place, verb, arguments)


if __name__ == "__main__":
    main()
