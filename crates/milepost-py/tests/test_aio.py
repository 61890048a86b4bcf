"""The same operations for asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import milepost
import milepost.aio
import pytest
from conftest import locked
from milepost._workers import Workers


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work, debug=False)


def test_the_same_operations_are_awaited(project: Path) -> None:
    async def work() -> None:
        async with milepost.aio.open() as mp:
            async with mp.run("r", title="Title") as run:
                assert run.id == "r" and not run.rejoined and await run.state() is None
                async with run.task("a") as task:
                    await task.complete({"n": 1})

                @run.task("b")
                async def double(n: int) -> int:
                    await asyncio.sleep(0)
                    return 2 * n

                assert await double(4) == 8
                assert await double(4) is None
                with pytest.raises(ValueError, match="bad"):
                    async with run.task("c"):
                        raise ValueError("bad")
                assert await run.is_done("a") and not await run.is_done("c")
                await run.note("n")
                await run.decide("d")
                await run.record("make", 1, output="broken")
                await run.step("s", "in_progress")
                await run.step("s", "done")
                await run.criterion("x", "pending")
                await run.phase(1, "PLAN")
                await run.prompt("p")
                await run.plan("q")
                await run.answer("r", "s")
                await run.reply("t")
                await run.set_task("d", "skipped")
                run.put({"n": 2})
                assert (await run.save("saved")).status == "in_progress"
                async with run.autosave(0.01) as auto:
                    auto.put({"n": 3})
                    await asyncio.sleep(0.1)
                async with run.heartbeat(10):
                    pass
                assert [task.id for task in await run.tasks()] == ["a", "b", "c", "d"]
                assert await run.state() == {"n": 3}
            assert (await mp.runs())[0].state == "completed"
            assert len(await mp.list("r")) > 3
            assert (await mp.show("r")).state == {"n": 3}
            assert await mp.state("r") == {"n": 3}
            assert (await mp.search("broken")).hits
            assert (await mp.verify()).is_intact
            assert "saved" in await mp.brief("r")
            assert len(await mp.conversation("r")) == 4
            assert (await mp.mark("r@1", pin=True))[0]
            assert len(await mp.tasks("r")) == 4
            assert await mp.resume() == []
            assert await mp.undo_points() == []
            assert (await mp.sync()).runs == []
            with pytest.raises(milepost.NotFound):
                await mp.show("nothing")
            with pytest.raises(OSError, match="gone"):
                async with mp.run("lost"):
                    raise OSError("gone")
            (found,) = await mp.resume()
            assert found.detail == "OSError: gone"
            async with mp.continue_run("lost") as run:
                await run.save()
            assert await mp.delete("r") > 0

    run(work())


def test_the_event_loop_goes_on_while_a_save_waits(project: Path) -> None:
    async def work() -> None:
        mp = await milepost.aio.open()
        run = await mp.run("r")
        await run.save()
        with locked(project):
            save = asyncio.ensure_future(run.save("second"))
            began, turns = time.monotonic(), 0
            while time.monotonic() - began < 0.5:
                turns += 1
                await asyncio.sleep(0.001)
            assert not save.done() and turns > 100
        assert (await save).sequence == 2
        await run.finish()
        await run.close()
        await mp.close()

    run(work())


def test_a_cancelled_save_still_ends_and_in_order(project: Path) -> None:
    async def work() -> None:
        mp = await milepost.aio.open()
        run = await mp.run("r")
        await run.save("first")
        with locked(project):
            save = asyncio.ensure_future(run.save("second"))
            await asyncio.sleep(0.05)
            save.cancel()
            with pytest.raises(asyncio.CancelledError):
                await save
            finish = asyncio.ensure_future(run.finish())
            await asyncio.sleep(0.05)
        await finish
        # The save did not open the run again.
        assert (await mp.runs())[0].state == "completed"
        assert [c.summary for c in await mp.list("r")][1:] == ["second", "first"]

    run(work())


def test_cancelling_an_open_leaves_nothing(project: Path) -> None:
    async def work() -> None:
        mp = await milepost.aio.open()
        await (await mp.run("r")).finish()

        async def use() -> None:
            async with mp.run("other") as run, run.task("t"):
                await asyncio.sleep(60)

        with locked(project):
            using = asyncio.ensure_future(use())
            await asyncio.sleep(0.1)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using
        for _ in range(200):
            try:
                async with mp.run("other"):
                    return
            except milepost.RunActive:
                await asyncio.sleep(0.02)
        raise AssertionError("the lock of the run is still held")

    run(work())


def test_cancelling_a_block_pauses_the_run(project: Path) -> None:
    async def work() -> None:
        mp = await milepost.aio.open()

        async def use() -> None:
            async with mp.run("r") as run, run.task("t"):
                await asyncio.sleep(60)

        for moment in (0.0, 0.005, 0.02, 0.1):
            using = asyncio.ensure_future(use())
            await asyncio.sleep(moment)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using
            await asyncio.sleep(0.2)
        found = (await mp.runs())[0]
        assert (found.status, found.detail) == ("paused", "CancelledError")
        assert [task.status for task in await mp.tasks("r")] == ["interrupted"]

    run(work())


def test_cancelling_the_begin_of_a_task_interrupts_it(project: Path) -> None:
    async def work() -> None:
        mp = await milepost.aio.open()
        run = await mp.run("r")
        await run.save()

        async def use() -> None:
            async with run.task("t"):
                raise AssertionError("it must not begin")

        with locked(project):
            using = asyncio.ensure_future(use())
            await asyncio.sleep(0.05)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using
        await run.note("after it")
        assert [task.status for task in await run.tasks()] == ["interrupted"]
        await run.finish()

    run(work())


def test_many_runs_at_once(project: Path) -> None:
    async def work() -> None:
        async with milepost.aio.open() as mp:

            async def one(n: int) -> None:
                async with mp.run(f"r{n}") as run:
                    for task in range(3):
                        async with run.task(str(task)):
                            run.put({"task": task})

            await asyncio.gather(*(one(n) for n in range(8)))
            assert len(await mp.runs(status="completed")) == 8

    run(work())


def test_no_thread_stays_behind(project: Path) -> None:
    async def work() -> None:
        async with milepost.aio.open() as mp, mp.run("r") as run:
            await run.save()
            await run.finish()
            await run.close()

    run(work())
    end = time.monotonic() + 10
    while any(thread.name.startswith("milepost") for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_call_that_has_not_begun_is_not_lost_when_it_is_cancelled() -> None:
    workers = Workers(1)
    release = threading.Event()
    done: list[str] = []
    logged: list[dict[str, Any]] = []

    def fail() -> None:
        done.append("second")
        raise milepost.MilepostError("refused", "usage", None)

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        first = asyncio.create_task(workers.call(release.wait))
        second = asyncio.create_task(workers.call(fail))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        assert await first
        await workers.call(lambda: done.append("third"))
        del second
        gc.collect()

    run(work())
    assert done == ["second", "third"]
    assert logged == []
    workers.shutdown()


def test_a_forked_process_has_workers_of_its_own() -> None:
    workers = Workers(1)
    assert workers.submit(os.getpid).result() == os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if workers.submit(os.getpid).result(10) == os.getpid() else 1)
        finally:
            os._exit(2)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
    workers.shutdown()


def test_a_forked_process_raises_and_does_not_hang(project: Path) -> None:
    async def parent() -> None:
        mp = await milepost.aio.open()
        run = await mp.run("r")
        await run.save()
        pid = os.fork()
        if pid == 0:
            os._exit(in_child(mp, run))
        status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
        assert os.WEXITSTATUS(status[1]) == 0
        await run.finish()

    def in_child(mp: milepost.aio.Milepost, run: milepost.aio.Run) -> int:
        failed: list[bool] = []

        async def child() -> None:
            for call in (mp.runs, run.save, run.tasks):
                try:
                    await call()
                except milepost.Forked:
                    failed.append(True)
            async with milepost.aio.open() as own, own.run("child") as mine:
                await mine.save()
            failed.append(True)

        # A running event loop is inherited; a thread has none.
        thread = threading.Thread(target=lambda: asyncio.run(child()))
        thread.start()
        thread.join(30)
        return 0 if len(failed) == 4 else 1

    run(parent())
