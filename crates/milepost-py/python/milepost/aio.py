"""The same operations for asyncio. Every call that can wait is awaited, and never blocks the event loop.

>>> import milepost.aio
>>> async def main():
...     async with milepost.aio.open() as mp, mp.run("nightly") as run:
...         if not await run.is_done("fetch"):
...             async with run.task("fetch"):
...                 ...

Each run has one worker thread, which executes its calls in order. A call whose await is cancelled still ends, and what it
opened is closed again.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

import milepost
from milepost import _milepost
from milepost._workers import Workers
from milepost.errors import MilepostError, MilepostWarning
from milepost.run import MISSING, describe
from milepost.timer import warn_not_saved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator, Iterable, Sequence
    from datetime import datetime
    from types import TracebackType

    from typing_extensions import ParamSpec, Self

    from milepost.store import CheckpointList, StrPath

    P = ParamSpec("P")

T = TypeVar("T")
R = TypeVar("R")


class _Opening(Generic[T]):
    """Something that is opened when it is awaited or entered."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._start = start
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._start().__await__()

    async def __aenter__(self) -> T:
        opened = await self._start()
        self._opened = opened
        return opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opened: Any = self._opened
        await opened.__aexit__(kind, error, traceback)


def open(
    path: StrPath | None = None, *, store: str | None = None, project: str | None = None
) -> _Opening[Milepost]:
    """Open the store of a project, as `milepost.open` does. Await it, or use it with `async with`."""

    async def start() -> Milepost:
        worker = Workers(8)
        folder = os.fspath(path if path is not None else ".")

        def work() -> milepost.Milepost:
            return milepost.Milepost(_milepost.Engine.open(folder, store, project))

        mp = await worker.call(work, discard=milepost.Milepost.close)
        for message in mp.messages:
            warnings.warn(message, MilepostWarning, stacklevel=2)
        return Milepost(mp, worker)

    return _Opening(start)


class Milepost:
    """The open store of a project. Use `milepost.aio.open`."""

    def __init__(self, mp: milepost.Milepost, worker: Workers) -> None:
        self._mp = mp
        self._worker = worker

    def _call(
        self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[R]:
        self._mp.check_process()
        return self._worker.call(functools.partial(function, *args, **kwargs))

    @property
    def sync_api(self) -> milepost.Milepost:
        """The same store with blocking methods, for other threads."""
        return self._mp

    @property
    def store(self) -> str:
        """The address of the store, without a password."""
        return self._mp.store

    def __repr__(self) -> str:
        return f"aio.{self._mp!r}"

    async def close(self) -> None:
        """Close the store. Runs that are open keep it open until they are closed."""
        await self._call(self._mp.close)
        self._worker.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _opening(self, work: Callable[[], milepost.Run]) -> _Opening[Run]:
        async def start() -> Run:
            self._mp.check_process()
            worker = Workers(1)
            return Run(await worker.call(work, discard=milepost.Run.close), worker)

        return _Opening(start)

    def run(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        profile: str | None = None,
        plan: str | None = None,
        new_round: bool = False,
        must_be_new: bool = False,
    ) -> _Opening[Run]:
        """Continue the run with this id, or start it. Await it, or use it with `async with`."""
        return self._opening(
            functools.partial(
                self._mp.run,
                id,
                title=title,
                profile=profile,
                plan=plan,
                new_round=new_round,
                must_be_new=must_be_new,
            )
        )

    def continue_run(
        self, run: str, *, id: str | None = None, title: str | None = None
    ) -> _Opening[Run]:
        """Start a run that continues an interrupted one. Await it, or use it with `async with`."""
        return self._opening(functools.partial(self._mp.continue_run, run, id=id, title=title))

    async def runs(
        self, *, status: str | None = None, limit: int = 0
    ) -> list[milepost.RunSummary]:
        """Runs, most recently written first."""
        return await self._call(self._mp.runs, status=status, limit=limit)

    async def tasks(self, run: str) -> list[milepost.TaskInfo]:
        """All tasks of a run."""
        return await self._call(self._mp.tasks, run)

    async def resume(self) -> list[milepost.RunSummary]:
        """Runs that can be continued, best first. `continue_run` continues one."""
        return [found.run for found in await self._call(self._mp.resume)]

    async def dismiss(self, run: str) -> None:
        """Stop offering an interrupted run, until it is started again."""
        await self._call(self._mp.dismiss, run)

    async def delete(self, run: str) -> int:
        """Delete a run with all its checkpoints, and return their number."""
        return await self._call(self._mp.delete, run)

    async def conversation(self, run: str) -> list[milepost.Message]:
        """What was said in a run and in the runs that it continues, oldest first."""
        return await self._call(self._mp.conversation, run)

    async def list(
        self,
        run: str | None = None,
        *,
        limit: int = 0,
        status: str | None = None,
        tag: str | None = None,
    ) -> CheckpointList:
        """Checkpoints, newest first."""
        return await self._call(self._mp.list, run, limit=limit, status=status, tag=tag)

    async def show(
        self, reference: str = "latest", *, run: str | None = None
    ) -> milepost.Checkpoint:
        """Read a checkpoint."""
        return await self._call(self._mp.show, reference, run=run)

    async def state(self, reference: str = "latest", *, run: str | None = None) -> Any:
        """The state as of a checkpoint."""
        return await self._call(self._mp.state, reference, run=run)

    async def brief(self, run: str = "latest", *, budget: int | None = None) -> str:
        """What is needed to continue a run, as Markdown."""
        return await self._call(self._mp.brief, run, budget=budget)

    async def mark(
        self,
        reference: str,
        *,
        pin: bool | None = None,
        tags: Iterable[str] = (),
        untag: Iterable[str] = (),
    ) -> tuple[bool, Sequence[str]]:
        """Pin or tag a checkpoint."""
        return await self._call(self._mp.mark, reference, pin=pin, tags=tags, untag=untag)

    async def search(
        self,
        text: str,
        *,
        kinds: Iterable[str] = (),
        run: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        limit: int = 10,
        prefix_last: bool = False,
    ) -> milepost.SearchResults:
        """Search what runs recorded."""
        return await self._call(
            self._mp.search,
            text,
            kinds=kinds,
            run=run,
            agent=agent,
            since=since,
            limit=limit,
            prefix_last=prefix_last,
        )

    async def restore_plan(
        self,
        reference: str = "latest",
        *,
        paths: Iterable[StrPath] = (),
        all: bool = False,
        force: bool = False,
        current_run: str | None = None,
    ) -> milepost.RestorePlan:
        """Plan to bring files back. `apply_plan` carries the plan out."""
        return await self._call(
            self._mp.restore_plan,
            reference,
            paths=paths,
            all=all,
            force=force,
            current_run=current_run,
        )

    async def apply_plan(self, plan: milepost.RestorePlan) -> milepost.RestoreReport:
        """Carry out a plan."""
        return await self._call(plan.apply)

    async def restore(
        self,
        reference: str = "latest",
        *,
        paths: Iterable[StrPath] = (),
        all: bool = False,
        force: bool = False,
        current_run: str | None = None,
    ) -> milepost.RestoreReport:
        """Bring files back to a checkpoint."""
        return await self._call(
            self._mp.restore,
            reference,
            paths=paths,
            all=all,
            force=force,
            current_run=current_run,
        )

    async def undo(
        self, id: str | None = None, *, force: bool = False, current_run: str | None = None
    ) -> milepost.RestoreReport:
        """Undo a restore."""
        return await self._call(self._mp.undo, id, force=force, current_run=current_run)

    async def undo_points(self) -> Sequence[milepost.UndoPoint]:
        """The restores that can be undone, newest first."""
        return await self._call(self._mp.undo_points)

    async def verify(self, run: str | None = None) -> milepost.VerifyReport:
        """Read everything in the store, or in a run, and report what is damaged."""
        return await self._call(self._mp.verify, run)

    async def sync(self) -> milepost.SyncReport:
        """Send what waits on this machine to the server of the store."""
        return await self._call(self._mp.sync)


class Run:
    """A run that this process works on. Its calls are executed one after the other."""

    def __init__(self, run: milepost.Run, worker: Workers) -> None:
        self._run = run
        self._worker = worker

    def _call(
        self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[R]:
        self._run.check_process()
        return self._worker.call(functools.partial(function, *args, **kwargs))

    @property
    def worker(self) -> Workers:
        """What executes the calls of this run."""
        self._run.check_process()
        return self._worker

    @property
    def sync_api(self) -> milepost.Run:
        """The same run with blocking methods, for other threads."""
        return self._run

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._run.id

    @property
    def rejoined(self) -> bool:
        """Whether the run existed before this handle opened it."""
        return self._run.rejoined

    def __repr__(self) -> str:
        return f"aio.{self._run!r}"

    async def state(self) -> Any:
        """The newest state. `None` if there is none."""
        return await self._call(lambda: self._run.state)

    def put(self, state: object) -> None:
        """Set the state, which the next checkpoint contains. Writes nothing, so there is nothing to await."""
        self._run.state = state

    async def save(
        self,
        summary: str | None = None,
        *,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
        reason: str | None = None,
    ) -> milepost.Saved:
        """Save a checkpoint. It is on disk when the await ends."""
        return await self._call(
            self._run.save, summary, state=state, tags=tags, pin=pin, reason=reason
        )

    async def snapshot(
        self,
        summary: str | None = None,
        *,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
        reason: str | None = None,
    ) -> milepost.Saved:
        """Save a checkpoint with the changed files of the worktree."""
        return await self._call(
            self._run.snapshot, summary, state=state, tags=tags, pin=pin, reason=reason
        )

    async def save_after_error(self, error: BaseException | str) -> milepost.Saved:
        """Save a checkpoint after an error that does not end the work."""
        return await self._call(self._run.save_after_error, error)

    async def is_done(self, task: str) -> bool:
        """Whether a task is done."""
        return await self._call(self._run.is_done, task)

    def task(self, id: str) -> Task:
        """A task, for `async with` or as a decorator of a coroutine function."""
        return Task(self, id)

    async def tasks(self) -> list[milepost.TaskInfo]:
        """All tasks of the run."""
        return await self._call(self._run.tasks)

    async def set_task(
        self, id: str, status: str, *, title: str | None = None
    ) -> milepost.Saved | None:
        """Set the status of a task."""
        return await self._call(self._run.set_task, id, status, title=title)

    async def note(self, text: str) -> None:
        """Add a line to the log."""
        await self._call(self._run.note, text)

    async def decide(self, text: str, *, instead_of: str | None = None) -> None:
        """Record a decision."""
        await self._call(self._run.decide, text, instead_of=instead_of)

    async def record(
        self,
        command: str,
        exit_code: int | None = None,
        *,
        result: str | None = None,
        output: str = "",
        duration: float = 0.0,
        kind: str = "shell",
        reason: str | None = None,
    ) -> None:
        """Record the outcome of a command."""
        await self._call(
            self._run.record,
            command,
            exit_code,
            result=result,
            output=output,
            duration=duration,
            kind=kind,
            reason=reason,
        )

    async def step(
        self, id: str, status: str, *, title: str | None = None
    ) -> milepost.Saved | None:
        """Record that a step of the plan starts or ends."""
        return await self._call(self._run.step, id, status, title=title)

    async def criterion(self, id: str, status: str, subject: str = "") -> None:
        """Set the status of a success criterion."""
        await self._call(self._run.criterion, id, status, subject)

    async def phase(self, number: int, name: str = "") -> None:
        """Set the current phase."""
        await self._call(self._run.phase, number, name)

    async def prompt(self, text: str) -> None:
        """Record what the user asked the agent to do."""
        await self._call(self._run.prompt, text)

    async def answer(self, question: str, text: str) -> None:
        """Record the user's answer to a question of the agent."""
        await self._call(self._run.answer, question, text)

    async def plan(self, text: str, *, is_approved: bool = False) -> None:
        """Record a plan of the agent."""
        await self._call(self._run.plan, text, is_approved=is_approved)

    async def reply(self, text: str) -> None:
        """Record the agent's last message of a turn."""
        await self._call(self._run.reply, text)

    def autosave(
        self,
        interval: float = 30.0,
        *,
        provider: Callable[[], object] | None = None,
        on_error: Callable[[MilepostError], object] = warn_not_saved,
    ) -> Timer:
        """Save the state every `interval` seconds. The functions are called on the timer's thread."""
        self._run.check_process()
        return Timer(
            self._run.autosave(interval, provider=provider, on_error=on_error), self._worker
        )

    def heartbeat(
        self,
        interval: float = 120.0,
        *,
        on_error: Callable[[MilepostError], object] = warn_not_saved,
    ) -> Timer:
        """Record every `interval` seconds that the work is in progress."""
        self._run.check_process()
        return Timer(self._run.heartbeat(interval, on_error=on_error), self._worker)

    async def finish(
        self,
        status: str = "completed",
        *,
        summary: str | None = None,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
    ) -> milepost.Saved:
        """Save the last checkpoint and end the run."""
        return await self._call(
            self._run.finish, status, summary=summary, state=state, tags=tags, pin=pin
        )

    async def close(self) -> None:
        """Release the run without ending it."""
        await self._call(self._run.close)
        self._worker.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._run.is_closed:
            return
        await self._call(self._run.end_block, error)
        self._worker.shutdown()


class Task:
    """A task of a run, for `async with` or as a decorator of a coroutine function."""

    def __init__(self, run: Run, id: str) -> None:
        self._run = run
        self.id = id
        self._task: milepost.Task | None = None

    def __repr__(self) -> str:
        return f"aio.Task({self.id!r})"

    async def __aenter__(self) -> Self:
        task = self._run.sync_api.task(self.id)
        self._task = task
        # A task that began after its await was cancelled is interrupted at once.
        await self._run.worker.call(task.__enter__, discard=milepost.Task.interrupt)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._run.worker.call(functools.partial(self._begun().end_block, error))

    def _begun(self) -> milepost.Task:
        if self._task is None:
            raise MilepostError(f"task {self.id} has not begun: use it with `async with`")
        return self._task

    async def complete(self, state: object = MISSING) -> milepost.Saved:
        """Complete the task before its block ends, and save the state in the same transaction."""
        return await self._run.worker.call(functools.partial(self._begun().complete, state))

    async def fail(self, why: BaseException | str) -> milepost.Saved:
        """Record that the task failed, without an exception."""
        text = why if isinstance(why, str) else describe(why)
        return await self._run.worker.call(functools.partial(self._begun().fail, text))

    async def skip(self) -> milepost.Saved:
        """Record that the task was skipped."""
        return await self._run.worker.call(self._begun().skip)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        if not inspect.iscoroutinefunction(function):
            raise TypeError("a task of milepost.aio decorates a coroutine function")

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if await self._run.is_done(self.id):
                return None
            async with Task(self._run, self.id):
                return await function(*args, **kwargs)

        return call


class Timer:
    """A running timer."""

    def __init__(self, timer: milepost.Timer, worker: Workers) -> None:
        self._timer = timer
        self._worker = worker

    def put(self, state: object) -> None:
        """Set the state of the run. The next tick saves it."""
        self._timer.put(state)

    @property
    def is_running(self) -> bool:
        """Whether the timer has not been stopped."""
        return self._timer.is_running

    def cancel(self) -> None:
        """Stop the timer without waiting."""
        self._timer.cancel()

    async def stop(self) -> None:
        """Stop the timer and wait for a save in progress."""
        await self._worker.call(self._timer.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
