"""Threads, forks, timers, and the end of the interpreter."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Callable

import milepost
import pytest
from conftest import locked
from conftest import run as run_program
from conftest import start


def test_other_threads_work_while_a_save_waits(mp: milepost.Milepost, project: Path) -> None:
    run = mp.run("r")
    run.save("first")
    ticks = 0
    saved = threading.Event()

    def save() -> None:
        run.save("second")
        saved.set()

    thread = threading.Thread(target=save)
    with locked(project):
        thread.start()
        began = time.monotonic()
        while time.monotonic() - began < 1:
            ticks += 1
            time.sleep(0.001)
        assert not saved.is_set()
        assert ticks > 200
    thread.join(30)
    assert saved.is_set()
    run.finish()


def test_a_store_that_stays_locked_is_busy(project: Path) -> None:
    home = Path(os.environ["HOME"]) / ".config/milepost"
    home.mkdir(parents=True)
    (home / "config.toml").write_text('wait = 0\n')
    run = milepost.open().run("r")
    run.save()
    with locked(project):
        with pytest.raises(milepost.StoreBusy) as raised:
            run.save("x")
        assert raised.value.reason == "store_busy"
    run.finish()


def test_many_threads_share_one_run(mp: milepost.Milepost) -> None:
    run = mp.run("r")

    def work(n: int) -> None:
        with run.task(f"t{n}"):
            run.state = {"n": n}
            run.note(f"note {n}")
        mp.show("r")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    assert all(run.is_done(f"t{n}") for n in range(24))
    run.finish()
    assert mp.verify().is_intact


def test_autosave_saves_what_was_put(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        with run.autosave(0.02) as auto:
            assert auto.is_running
            auto.put({"n": 1})
            wait_for(lambda: mp.list("r").checkpoints and mp.state("r") == {"n": 1})
        assert not auto.is_running
        auto.stop()
        with run.heartbeat(0.02) as beat:
            time.sleep(0.1)
        beat.stop()
        with pytest.raises(milepost.InvalidValue):
            run.autosave(-1)
        with pytest.raises(milepost.MilepostError, match="greater than 0"):
            run.autosave(0)


def test_a_timer_lives_as_long_as_its_run(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        run.autosave(0.02)
        run.state = {"n": 2}
        wait_for(lambda: mp.list("r").checkpoints and mp.state("r") == {"n": 2})
        timer = run.heartbeat(0.02)
    assert not timer.is_running


def test_a_provider_and_its_errors(mp: milepost.Milepost) -> None:
    errors: list[milepost.MilepostError] = []
    count = 0

    def provider() -> object:
        nonlocal count
        count += 1
        if count == 1:
            raise RuntimeError("not yet")
        return {1} if count == 2 else {"count": count}

    with mp.run("r") as run:
        with run.autosave(0.02, provider=provider, on_error=errors.append):
            wait_for(lambda: count >= 4)
        assert run.state["count"] >= 3
    assert [str(error) for error in errors] == [
        "the provider failed: RuntimeError: not yet",
        "the provider failed: InvalidValue: a value of type set cannot be written as JSON",
    ]
    assert isinstance(errors[0].__cause__, RuntimeError)


@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
def test_a_callback_that_raises_is_reported(
    mp: milepost.Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: seen.append(type(args.exc_value)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]

    def fail(*_: object) -> object:
        raise OSError("no")

    with mp.run("r") as run, run.autosave(0.02, provider=lambda: fail(), on_error=fail):
        wait_for(lambda: len(seen) > 1)
    assert seen[0] is OSError


def test_without_a_callback_an_error_is_a_warning(project: Path) -> None:
    out = run_program(
        """
        import milepost, threading, time, warnings
        seen = []
        warnings.showwarning = lambda message, *_: seen.append(str(message))
        warnings.simplefilter("always")
        with milepost.open().run("r") as run, run.autosave(0.02, provider=lambda: 1/0):
            while not seen: time.sleep(0.01)
        print(seen[0])
        """
    )
    assert out == "not saved: the provider failed: ZeroDivisionError: division by zero\n"


def test_after_a_fork_a_handle_belongs_to_the_parent(mp: milepost.Milepost) -> None:
    run = mp.run("r")
    run.save("parent")
    timer = run.autosave(0.02)
    task = run.task("t")
    task.__enter__()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            names: list[str] = []
            for call in (mp.runs, run.save, run.tasks, task.complete, lambda: run.state):
                try:
                    call()
                    names.append("nothing")
                except milepost.Forked:
                    names.append("Forked")
            timer.stop()
            with milepost.open() as again:
                names.append(again.show("r").summary or "")
                with again.run("child") as own:
                    own.save()
            os.write(writer, " ".join(names).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(reader, 1000).decode() == "Forked Forked Forked Forked Forked parent"
    os.close(reader)
    task.complete({"n": 1})
    run.finish()
    assert {found.run_id for found in mp.runs()} == {"r", "child"}
    assert mp.verify().is_intact


def test_a_child_does_not_keep_the_lock_of_its_parent(project: Path) -> None:
    parent = start(
        """
        import milepost, os, sys, time
        mp = milepost.open(); run = mp.run("r"); run.save()
        child = os.fork()
        if child == 0:
            sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        time.sleep(60)
        """
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.2)
    parent.kill()
    parent.communicate()
    try:
        with milepost.open().run("r") as run:
            assert run.rejoined
    finally:
        os.kill(child, signal.SIGKILL)


PROCESSES = {
    "fork": multiprocessing.get_context("fork").Process,
    "spawn": multiprocessing.get_context("spawn").Process,
}


@pytest.mark.parametrize("method", list(PROCESSES))
def test_processes_of_multiprocessing_open_their_own(mp: milepost.Milepost, method: str) -> None:
    with mp.run("parent") as run:
        # Work in other threads while the process forks.
        for _ in range(3):
            run.autosave(0.001, provider=time.monotonic)
        make: Callable[..., BaseProcess] = PROCESSES[method]
        processes = [make(target=save_in_child, args=(n,)) for n in range(6)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    assert len(mp.runs()) == 7


def save_in_child(n: int) -> None:
    with milepost.open() as mp, mp.run(f"child-{n}") as run:
        run.save(state={"n": n})


def test_the_interpreter_ends_with_live_timers(project: Path) -> None:
    source = """
    import milepost, sys, threading, time
    mp = milepost.open()
    run = mp.run("r")
    def provider():
        time.sleep(0.001)
        return {"n": time.time()}
    timers = [run.autosave(0.001, provider=provider, on_error=lambda e: None) for _ in range(4)]
    run.heartbeat(0.001)
    time.sleep(0.05)
    """
    for _ in range(5):
        began = time.monotonic()
        run_program(source)
        assert time.monotonic() - began < 10
    # The run was not ended, so it can be continued.
    with milepost.open().run("r") as run:
        assert run.rejoined and run.state


def test_a_callback_that_hangs_does_not_keep_the_program_alive(project: Path) -> None:
    began = time.monotonic()
    process = start(
        """
        import milepost, time
        run = milepost.open().run("r")
        run.autosave(0.001, provider=lambda: time.sleep(60))
        time.sleep(0.2)
        print("end", flush=True)
        """
    )
    out, err = process.communicate(timeout=30)
    assert out == "end\n" and process.returncode == 0, (process.returncode, err)
    assert time.monotonic() - began < 15


def test_a_daemon_thread_that_saves_does_not_crash_the_end(project: Path) -> None:
    for _ in range(3):
        process = start(
            """
            import milepost, threading, time
            run = milepost.open().run("r")
            def work():
                while True: run.save(str(time.time()))
            for _ in range(3): threading.Thread(target=work, daemon=True).start()
            time.sleep(0.2)
            """
        )
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, (process.returncode, err)


def wait_for(condition: object, timeout: float = 20) -> None:
    assert callable(condition)
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
