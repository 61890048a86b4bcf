"""A run that this process works on, and its tasks."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from milepost import _lifetime, _milepost
from milepost._arguments import Content, TimerOptions
from milepost.errors import MilepostError, MilepostWarning
from milepost.timer import Timer, warn_not_saved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import ParamSpec, Self

    P = ParamSpec("P")

R = TypeVar("R")


class _Missing:
    """Tells "no state given" from the state `None`."""


MISSING = _Missing()


def encode(state: object) -> str | None:
    """The JSON text of a state, or `None` if none was given."""
    return None if isinstance(state, _Missing) else _milepost.encode_state(state)


def describe(error: BaseException) -> str:
    """The class and the message of an exception."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def warn_not_recorded(what: str, error: Exception) -> None:
    """Report that the end of something could not be recorded, while another exception is on its way."""
    warnings.warn(f"{what} could not be recorded: {error}", MilepostWarning, stacklevel=3)


class Ending:
    """How a `with` block over a run ended, and what the run records about it."""

    def __init__(self, error: BaseException | None) -> None:
        self.status = "completed"
        self.failure: str | None = None
        self.interrupted: str | None = None
        if error is None:
            return
        is_plain_exit = isinstance(error, SystemExit) and error.code in (None, 0)
        if isinstance(error, (Exception, SystemExit)) and not is_plain_exit:
            self.status, self.failure = "failed", describe(error)
        else:
            self.status, self.interrupted = "paused", describe(error)


class Run:
    """A run that this process works on. Use `Milepost.run` to open one.

    As a context manager, the run ends with the block: completed, failed with the text of the exception, or paused if the
    user interrupted it. Methods can be called from any thread.
    """

    def __init__(self, handle: _milepost.RunHandle) -> None:
        self._handle = handle
        self._timers: list[Timer] = []
        self._is_finished = False
        _lifetime.runs.add(self)

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._handle.id

    @property
    def rejoined(self) -> bool:
        """Whether the run existed before this handle opened it."""
        return self._handle.rejoined

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    # State

    @property
    def state(self) -> Any:
        """The newest state: what was set last, or what the run saved before this process. `None` if there is none.

        Setting it writes nothing. The next checkpoint of this handle, and every later one, contains it. Reading it returns a
        copy: set it again after you change the copy.
        """
        text = self._handle.state_text()
        return None if text is None else _milepost.decode_state(text)

    @state.setter
    def state(self, state: object) -> None:
        self._handle.put(_milepost.encode_state(state))

    def save(
        self,
        summary: str | None = None,
        *,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
        reason: str | None = None,
    ) -> _milepost.Saved:
        """Save a checkpoint. It is on disk when this returns."""
        return self._handle.save(content(summary, state, tags, pin, reason))

    def snapshot(
        self,
        summary: str | None = None,
        *,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
        reason: str | None = None,
    ) -> _milepost.Saved:
        """Save a checkpoint with the changed files of the worktree, which `Milepost.restore` can bring back."""
        return self._handle.snapshot(content(summary, state, tags, pin, reason))

    def save_after_error(self, error: BaseException | str) -> _milepost.Saved:
        """Save a checkpoint after an error that does not end the work, with the error in the log."""
        return self._handle.save_after_error(error if isinstance(error, str) else describe(error))

    # Tasks

    def is_done(self, task: str) -> bool:
        """Whether a task is done. Subtasks are named `PARENT/CHILD`."""
        return self._handle.is_done(task)

    def task(self, id: str) -> Task:
        """A task, as a context manager or as a decorator."""
        return Task(self._handle, id)

    def tasks(self) -> list[_milepost.Task]:
        """All tasks of the run."""
        return self._handle.tasks()

    def set_task(self, id: str, status: str, *, title: str | None = None) -> _milepost.Saved | None:
        """Set the status of a task: pending, in_progress, done, failed, skipped or interrupted."""
        return self._handle.set_task(id, status, title)

    # Progress

    def note(self, text: str) -> None:
        """Add a line to the log."""
        self._handle.note(text)

    def decide(self, text: str, *, instead_of: str | None = None) -> None:
        """Record a decision, which is never dropped. `instead_of` is the text of the decision that it replaces."""
        self._handle.decide(text, instead_of)

    def record(
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
        """Record the outcome of a command. Its end is kept of the output, without secrets.

        `result` is PASS, FAIL or WARN; by default the exit code decides. `duration` is in seconds.
        """
        self._handle.record(
            command,
            exit_code=exit_code,
            result=result,
            output=output,
            duration=duration,
            kind=kind,
            reason=reason,
        )

    def step(self, id: str, status: str, *, title: str | None = None) -> _milepost.Saved | None:
        """Record that a step of the plan starts or ends: in_progress, done, failed or skipped."""
        return self._handle.step(id, status, title)

    def criterion(self, id: str, status: str, subject: str = "") -> None:
        """Set the status of a success criterion: pending, in_progress, completed or failed."""
        self._handle.criterion(id, status, subject)

    def phase(self, number: int, name: str = "") -> None:
        """Set the current phase."""
        self._handle.phase(number, name)

    # Conversation

    def prompt(self, text: str) -> None:
        """Record what the user asked the agent to do."""
        self._handle.prompt(text)

    def answer(self, question: str, text: str) -> None:
        """Record the user's answer to a question of the agent."""
        self._handle.answer(question, text)

    def plan(self, text: str, *, is_approved: bool = False) -> None:
        """Record a plan of the agent."""
        self._handle.plan(text, is_approved)

    def reply(self, text: str) -> None:
        """Record the agent's last message of a turn."""
        self._handle.reply(text)

    # Timers

    def autosave(
        self,
        interval: float = 30.0,
        *,
        provider: Callable[[], object] | None = None,
        on_error: Callable[[MilepostError], object] = warn_not_saved,
    ) -> Timer:
        """Save the state every `interval` seconds: the one that was set last, or the one that `provider` returns.

        `provider` and `on_error` are called on the timer's thread.
        """
        options = TimerOptions(interval=interval, provider=provider, on_error=on_error)
        return self._started(self._handle.autosave(options))

    def heartbeat(
        self,
        interval: float = 120.0,
        *,
        on_error: Callable[[MilepostError], object] = warn_not_saved,
    ) -> Timer:
        """Record every `interval` seconds that the work is in progress."""
        options = TimerOptions(interval=interval, provider=None, on_error=on_error)
        return self._started(self._handle.heartbeat(options))

    def _started(self, handle: _milepost.TimerHandle) -> Timer:
        timer = Timer(self._handle, handle)
        self._timers = [other for other in self._timers if other.is_running]
        self._timers.append(timer)
        return timer

    # End

    def finish(
        self,
        status: str = "completed",
        *,
        summary: str | None = None,
        state: object = MISSING,
        tags: Iterable[str] = (),
        pin: bool = False,
    ) -> _milepost.Saved:
        """Save the last checkpoint and end the run as completed, failed or paused. Stops its timers."""
        ending = Ending(None)
        ending.status = status
        return self._finish(ending, content(summary, state, tags, pin, None))

    def _finish(self, ending: Ending, last: Content) -> _milepost.Saved:
        self._stop_timers()
        saved = self._handle.finish(ending.status, last, ending.failure, ending.interrupted)
        self._is_finished = True
        return saved

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.stop()
        self._timers = []

    def close(self) -> None:
        """Release the run without ending it, as if the process died. Another process can then continue it."""
        self._stop_timers()
        self._handle.close()

    def check_process(self) -> None:
        """Raise `Forked` in a process that a fork created."""
        self._handle.check_process()

    @property
    def is_closed(self) -> bool:
        """Whether the run was released with `close`."""
        return self._handle.is_closed

    def leave_to_parent(self) -> None:
        """Called in a process that a fork created: the run belongs to the parent."""
        self._handle.leave_to_parent()

    def __enter__(self) -> Self:
        self._handle.check_process()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end_block(error)

    def end_block(self, error: BaseException | None) -> None:
        """End the run as a `with` block does that ends with this exception, or with none."""
        if self._is_finished or self._handle.is_closed:
            return
        try:
            self._finish(Ending(error), content(None, MISSING, (), False, None))
        except Exception as failure:
            if error is None:
                raise
            warn_not_recorded(f"the end of run {self.id}", failure)


def content(
    summary: str | None, state: object, tags: Iterable[str], pin: bool, reason: str | None
) -> Content:
    """The content of a checkpoint, as the native module takes it."""
    tags = [tags] if isinstance(tags, str) else list(tags)
    return Content(
        summary=summary, state=encode(state), tags=tags, pin=pin, reason=reason
    )


class Task:
    """A task of a run, as a context manager or as a decorator.

    The block begins the task and completes it, or records why it failed. An interrupted task starts over the next time. As
    a decorator, the function is called only if the task is not done yet; otherwise the call returns `None`.
    """

    def __init__(self, run: _milepost.RunHandle, id: str) -> None:
        self._run = run
        self.id = id
        self._handle: _milepost.TaskHandle | None = None

    def __repr__(self) -> str:
        return f"Task({self.id!r})"

    def __enter__(self) -> Self:
        self._handle = self._run.begin_task(self.id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end_block(error)

    def end_block(self, error: BaseException | None) -> None:
        """End the task as a `with` block does that ends with this exception, or with none."""
        handle = self._begun()
        if handle.has_ended:
            return
        if error is None:
            handle.complete(None)
            return
        try:
            if isinstance(error, Exception):
                handle.fail(describe(error))
            else:
                handle.interrupt()
        except Exception as failure:
            warn_not_recorded(f"the end of task {self.id}", failure)

    def _begun(self) -> _milepost.TaskHandle:
        if self._handle is None:
            raise MilepostError(f"task {self.id} has not begun: use it in a `with` statement")
        return self._handle

    def complete(self, state: object = MISSING) -> _milepost.Saved:
        """Complete the task before its block ends, and save the state in the same transaction."""
        return self._begun().complete(encode(state))

    def fail(self, why: BaseException | str) -> _milepost.Saved:
        """Record that the task failed, without an exception."""
        return self._begun().fail(why if isinstance(why, str) else describe(why))

    def skip(self) -> _milepost.Saved:
        """Record that the task was skipped."""
        return self._begun().skip()

    def interrupt(self) -> None:
        """End the task as interrupted. It starts over the next time."""
        self._begun().interrupt()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        if inspect.iscoroutinefunction(function):
            raise TypeError("use milepost.aio to make a task of a coroutine function")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if self._run.is_done(self.id):
                return None
            with Task(self._run, self.id):
                return function(*args, **kwargs)

        return call
