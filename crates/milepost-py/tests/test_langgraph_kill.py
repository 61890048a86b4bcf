"""Graphs that are killed at any moment on a local store and on a server, and continue with no step lost and none repeated that was saved."""

# LangGraph's own types are incomplete, and tests rely on what the types leave open.
# pyright: basic, reportTypedDictNotRequiredAccess=false, reportIndexIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalSubscript=false, reportAttributeAccessIssue=false
# mypy: disable-error-code="arg-type,index,no-any-return,union-attr,var-annotated"

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import new_postgres_store

pytest.importorskip("langgraph")

STEPS = 30

# Each step appends a line to a file before it returns, so that the file shows what was executed. A step whose checkpoint
# was saved must not be executed again; the last one before a kill may be.
PROGRAM = rf"""
import operator, os, sys, time
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from milepost.langgraph import MilepostSaver

class State(TypedDict):
    done: Annotated[list, operator.add]
    text: str

def step(state):
    n = len(state["done"])
    fd = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(fd, f"{{n}}\n".encode())
    os.close(fd)
    time.sleep(0.005)
    return {{"done": [n], "text": "x" * 20_000 + str(n)}}

builder = StateGraph(State)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges("step", lambda state: "step" if len(state["done"]) < {STEPS} else END)
config = {{"configurable": {{"thread_id": sys.argv[2]}}, "recursion_limit": 200}}
with MilepostSaver.from_conn_string(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    state = graph.get_state(config)
    saved = len(state.values.get("done", []))
    print("saved", saved, flush=True)
    with open("saved", "a") as file:
        file.write(f"{{saved}}\n")
    if not state.values:
        graph.invoke({{"done": [], "text": ""}}, config, durability="sync")
    elif saved < {STEPS}:
        # `state.next` is empty if the writes of the next step are saved, and only its checkpoint is not.
        graph.invoke(None, config, durability="sync")
    final = graph.get_state(config)
    assert final.values["done"] == list(range({STEPS})), final.values["done"]
    assert final.values["text"].endswith(str({STEPS} - 1))
    print("complete")
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_no_step_is_lost_or_repeated(project: Path, kind: str, kills: int) -> None:
    store = new_postgres_store() if kind == "postgres" else "sqlite:s.db"
    chance = random.Random(kills)
    killed = rounds = 0
    while killed < kills:
        rounds += 1
        for name in ("log", "saved"):
            Path(name).unlink(missing_ok=True)
        killed += one_round(chance, store, f"thread-{rounds}")
        executed = Counter(int(line) for line in Path("log").read_text().split())
        assert set(executed) == set(range(STEPS)), executed
        saved = [int(line) for line in Path("saved").read_text().split()]
        # What was saved only grows, and a step that was saved is never executed again: at most the step after it is,
        # once for each start.
        assert saved == sorted(saved)
        starts = Counter(saved)
        for step, count in executed.items():
            assert count <= starts[step] + 1, (step, executed, saved)
    assert rounds > 0


def one_round(chance: random.Random, store: str, thread: str) -> int:
    """Starts the program until its thread is complete. Returns how often it was killed."""
    killed = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, store, thread],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        # The first line says that the graph is about to run.
        first = process.stdout.readline()
        if not first.startswith("saved"):
            raise AssertionError(process.communicate()[1])
        time.sleep(chance.uniform(0, 0.12))
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGKILL), err
        if "complete" in out:
            return killed
        killed += 1
