"""Programs that are killed at any moment and started again."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import milepost
import pytest
from conftest import start

TASKS = 8

PROGRAM = f"""
import milepost, os, time
with milepost.open().run("r") as run:
    state = run.state or {{"done": []}}
    auto = run.autosave(0.01)
    for n in range({TASKS}):
        task = f"t{{n}}"
        if run.is_done(task):
            assert task in state["done"], (task, state)
            continue
        with run.task(task) as t:
            time.sleep(0.03)
            state = {{**state, "done": [*state["done"], task]}}
            fd = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            os.write(fd, f"begin {{task}}\\n".encode())
            t.complete(state)
            os.write(fd, f"end {{task}}\\n".encode())
            os.close(fd)
"""


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 9))]
)
def test_no_completed_task_runs_twice(project: Path, seed: int) -> None:
    chance = random.Random(seed)
    kills = 0
    for _ in range(200):
        process = start(PROGRAM)
        # The first part of a process's life is the start of Python.
        time.sleep(chance.uniform(0.05, 0.45 if kills else 0.2))
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        kills += 1
    else:
        raise AssertionError("the program never ended")
    assert kills > 0
    mp = milepost.open()
    (run,) = mp.runs()
    assert run.state == "completed"
    assert mp.state("r") == {"done": [f"t{n}" for n in range(TASKS)]}
    assert mp.verify().is_intact
    # A task whose completion was acknowledged did not begin again.
    ended: set[str] = set()
    for line in (project / "log").read_text().splitlines():
        event, task = line.split()
        assert task not in ended, f"{task} ran again"
        if event == "end":
            ended.add(task)
    assert len(ended) >= TASKS - kills


def test_ctrl_c_pauses_the_run(project: Path) -> None:
    process = start(
        """
        import milepost, signal, time
        # A test run in the background ignores the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with milepost.open().run("r") as run, run.task("t"):
            print("ready", flush=True)
            time.sleep(60)
        """
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    mp = milepost.open()
    (found,) = mp.resume()
    assert (found.why, found.detail) == ("interrupted", "KeyboardInterrupt")
    assert mp.tasks("r")[0].status == "interrupted"
