"""The program of the package, and its use at the same time as the package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Callable

import milepost
import pytest
from milepost._command import find_program

MODULE = [sys.executable, "-m", "milepost"]
PROGRAM = [str(find_program())]


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["runs"], ["show", "nothing"], ["--nonsense"], ["help", "save"]],
)
def test_the_module_behaves_like_the_program(project: Path, arguments: list[str]) -> None:
    first, second = (
        subprocess.run([*start, *arguments], capture_output=True, text=True, check=False)
        for start in (MODULE, PROGRAM)
    )
    assert (first.returncode, first.stdout, first.stderr) == (
        second.returncode,
        second.stdout,
        second.stderr,
    )


def test_the_module_passes_stdin_and_signals(project: Path) -> None:
    text = json.dumps({"task_summary": "from stdin", "state": {"n": 1}})
    save = [*MODULE, "-q", "save", "--run", "r", "--input", "-"]
    subprocess.run(save, input=text, text=True, check=True)
    mp = milepost.open()
    assert mp.show("r").summary == "from stdin" and mp.state("r") == {"n": 1}
    process = subprocess.Popen(
        [*MODULE, "-q", "run", "--run", "long", "--", "sh", "-c", "echo ready; sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    # No Python process stays in between.
    command = Path(f"/proc/{process.pid}/exe")
    if command.exists():
        assert Path(os.readlink(command)).name == "milepost"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode != 0
    seven = [*MODULE, "run", "--run", "seven", "--", "sh", "-c", "exit 7"]
    exited = subprocess.run(seven, check=False, capture_output=True)
    assert exited.returncode == 7


def test_the_package_and_the_program_use_the_same_store(
    mp: milepost.Milepost, command: Callable[..., str]
) -> None:
    with mp.run("r") as run:
        run.state = {"n": 10**30}
        with run.task("a"):
            pass
        assert command("task", "is", "a", "done", "--run", "r") == ""
        assert json.loads(command("state", "latest", "--run", "r")) == {"n": 10**30}
        command("note", "--run", "r", "from the program")
        run.save()
        assert "from the program" in mp.show("r").notes
        # The package owns the run, so the program sees that it is live.
        listed = json.loads(command("runs", "--json"))
        (found,) = listed["runs"]
        assert found["run_id"] == "r" and found["owner_alive"] is True
        assert found["owner_pid"] == os.getpid()
    command("verify")


def test_both_write_at_the_same_time(mp: milepost.Milepost) -> None:
    failures: list[str] = []

    def program(n: int) -> None:
        for k in range(5):
            ran = subprocess.run(
                [*PROGRAM, "-q", "save", "--run", f"p{n}", f"{k}"],
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode != 0:
                failures.append(ran.stderr)

    threads = [threading.Thread(target=program, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    with mp.run("r") as run:
        saved = 0
        while any(thread.is_alive() for thread in threads):
            run.save(f"number {saved}", state={"n": saved})
            saved += 1
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(mp.list("p0")) == len(mp.list("p1")) == 5
    assert saved > 0 and mp.verify().is_intact
