"""The native module. Programs use the package `milepost`, which exports the classes of results."""

import builtins
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, final

from typing_extensions import Self

from milepost._arguments import Content, Scope, TimerOptions

__all__ = [
    "Checkpoint",
    "CheckpointSummary",
    "Damage",
    "Decision",
    "Engine",
    "KeptFile",
    "LoadedCheckpoint",
    "Message",
    "PlannedFile",
    "RestorePlanData",
    "RestoreReport",
    "RunHandle",
    "RunSummary",
    "Saved",
    "SearchHit",
    "SearchResults",
    "SyncReport",
    "Task",
    "TaskHandle",
    "ThreadEntries",
    "ThreadEntry",
    "Threads",
    "TimerHandle",
    "UndoPoint",
    "VerifyReport",
    "after_fork_in_child",
    "after_fork_in_parent",
    "before_fork",
    "decode_state",
    "encode_state",
    "stop_callbacks",
]

def encode_state(value: object) -> str: ...
def decode_state(text: str) -> Any: ...
def stop_callbacks() -> None: ...
def before_fork() -> None: ...
def after_fork_in_parent() -> None: ...
def after_fork_in_child() -> None: ...

@final
class Saved:
    """A checkpoint that was saved, or the one that the save was folded into."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def reference(self) -> str:
        """`RUN@N`."""
    @property
    def coalesced(self) -> bool:
        """Whether the save was folded into an earlier checkpoint, because nothing had changed."""
    @property
    def source(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def replaced(self) -> int:
        """Number of secrets that were replaced."""
    @property
    def pruned(self) -> list[str]:
        """Ids of the checkpoints that retention removed."""
    @property
    def file(self) -> Path | None:
        """The checkpoint's file, in stores that have one."""

@final
class CheckpointSummary:
    """A checkpoint in a list."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def reference(self) -> str:
        """`RUN@N`."""
    @property
    def created_at(self) -> datetime: ...
    @property
    def source(self) -> str:
        """What triggered the save."""
    @property
    def status(self) -> str: ...
    @property
    def summary(self) -> str | None:
        """The first 120 characters of the summary."""
    @property
    def parent(self) -> str | None:
        """The checkpoint before it."""
    @property
    def completed(self) -> bool: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def has_state(self) -> bool: ...

@final
class Task:
    """A task of a run."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def is_done(self) -> bool: ...

@final
class Decision:
    """A decision."""

    @property
    def at(self) -> datetime: ...
    @property
    def text(self) -> str: ...
    @property
    def supersedes(self) -> str | None:
        """The decision that this one replaces."""

@final
class Message:
    """Something that the user or the agent said."""

    @property
    def kind(self) -> str:
        """`prompt`, `answer`, `plan` or `reply`."""
    @property
    def at(self) -> datetime: ...
    @property
    def text(self) -> str: ...
    @property
    def question(self) -> str | None:
        """The question that an answer belongs to."""
    @property
    def is_approved(self) -> bool | None:
        """Whether the user approved a plan."""

@final
class Damage:
    """Damage to stored data."""

    @property
    def reference(self) -> str | None:
        """The checkpoint as `RUN@N`, or the run, if known."""
    @property
    def message(self) -> str: ...
    @property
    def reason(self) -> str: ...

@final
class Checkpoint:
    """A verified checkpoint."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def reference(self) -> str:
        """`RUN@N`."""
    @property
    def created_at(self) -> datetime: ...
    @property
    def source(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def summary(self) -> str | None: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def completed(self) -> bool: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def has_state(self) -> bool: ...
    @property
    def tasks(self) -> list[Task]: ...
    @property
    def decisions(self) -> list[Decision]: ...
    @property
    def notes(self) -> list[str]:
        """The lines of the log, oldest first."""
    @property
    def brief(self) -> str | None: ...
    @property
    def document(self) -> str:
        """The sealed document, as JSON."""
    @property
    def checksum(self) -> str:
        """The checksum of its seal."""
    @property
    def fell_back_from(self) -> list[Damage]:
        """Newer checkpoints that were skipped because they are damaged."""
    @property
    def state(self) -> Any:
        """The state that the checkpoint contains; `None` if it contains none."""

@final
class RunSummary:
    """A run in a list."""

    @property
    def run_id(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def state(self) -> str:
        """`live`, `stopped`, `presumed dead`, `paused`, `failed`, `completed`, `open` or `damaged`."""
    @property
    def status(self) -> str | None:
        """`in_progress`, `paused`, `completed` or `failed`; `None` if the record is damaged."""
    @property
    def profile(self) -> str | None: ...
    @property
    def checkpoints(self) -> int: ...
    @property
    def latest(self) -> str | None:
        """The newest checkpoint as `RUN@N`."""
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def updated_at(self) -> datetime | None: ...
    @property
    def owner_pid(self) -> int | None: ...
    @property
    def owner_alive(self) -> bool | None:
        """Whether the owner is alive, if that is known."""
    @property
    def plan(self) -> str | None: ...
    @property
    def worktree(self) -> str | None: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def parent(self) -> str | None:
        """The checkpoint of another run that this run continues."""
    @property
    def about(self) -> str | None:
        """What the run is about."""
    @property
    def why(self) -> str | None:
        """Why it stopped, such as `process_crash`. Only for runs that can be continued."""
    @property
    def detail(self) -> str | None:
        """More about why it stopped, such as the text of an exception."""
    @property
    def is_foreign(self) -> bool:
        """Whether the run was imported, or copied from another store."""

@final
class SearchHit:
    """A text that matches a query."""

    @property
    def run_id(self) -> str: ...
    @property
    def reference(self) -> str:
        """The newest checkpoint that contains it as `RUN@N`, or the run."""
    @property
    def checkpoint(self) -> str | None:
        """The id of that checkpoint."""
    @property
    def kind(self) -> str:
        """`prompt`, `decision`, `failure`, `file`, `brief` or `summary`."""
    @property
    def at(self) -> datetime: ...
    @property
    def score(self) -> float: ...
    @property
    def excerpt(self) -> str:
        """The lines that match best."""
    @property
    def matches(self) -> list[tuple[int, int]]:
        """The matching words: `excerpt[start:end]`."""
    @property
    def about(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...

@final
class SearchResults:
    """The hits of a search, best first."""

    @property
    def hits(self) -> list[SearchHit]: ...
    @property
    def has_more(self) -> bool:
        """There are more hits than the limit."""
    @property
    def is_incomplete(self) -> bool:
        """Another process was still building the index, so hits may be missing."""

@final
class PlannedFile:
    """A file in a plan."""

    @property
    def path(self) -> str:
        """The path, relative to the root of the worktree."""
    @property
    def action(self) -> str:
        """`restore`, `recreate`, `delete`, `keep`, `conflict` or `unavailable`."""
    @property
    def reason(self) -> str | None:
        """Why it is left, or what is special about it."""
    @property
    def size(self) -> int | None: ...

@final
class RestorePlanData:
    @property
    def reference(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def taken_at(self) -> datetime: ...
    @property
    def files(self) -> list[PlannedFile]: ...
    @property
    def changes(self) -> int: ...
    @property
    def left_alone(self) -> int: ...
    @property
    def token(self) -> str: ...

@final
class KeptFile:
    """A file that a restore left as it is."""

    @property
    def path(self) -> str: ...
    @property
    def reason(self) -> str: ...

@final
class RestoreReport:
    """What a restore or an undo did."""

    @property
    def id(self) -> str:
        """The id with which it can be undone."""
    @property
    def restored(self) -> list[str]:
        """Files that have their earlier content now."""
    @property
    def kept(self) -> list[KeptFile]: ...
    @property
    def moved_aside(self) -> list[str]:
        """Files whose previous content was moved aside. An undo brings it back."""
    @property
    def safety_checkpoint(self) -> str | None:
        """The checkpoint with the files before the restore; `None` for an undo."""

@final
class UndoPoint:
    """A restore that can be undone."""

    @property
    def id(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def files(self) -> int:
        """Number of files that were changed."""
    @property
    def undoes(self) -> str | None:
        """The restore that this one undid."""

@final
class VerifyReport:
    """The result of a verification."""

    @property
    def checked(self) -> int:
        """Number of checkpoints that were read."""
    @property
    def damaged(self) -> list[Damage]: ...
    @property
    def files_checked(self) -> int:
        """Number of file contents that were read."""
    @property
    def damaged_files(self) -> list[str]: ...
    @property
    def is_intact(self) -> bool:
        """Nothing is damaged."""

@final
class SyncReport:
    """What was sent to the server of the store."""

    @property
    def runs(self) -> list[str]: ...
    @property
    def checkpoints(self) -> int: ...
    @property
    def split(self) -> list[tuple[str, str]]:
        """Runs that someone else continued meanwhile, and what the parts from this machine became."""
    @property
    def failed(self) -> list[tuple[str, str]]:
        """Runs that stay on this machine, and why."""

@final
class Engine:
    @property
    def root(self) -> Path: ...
    @property
    def store(self) -> str: ...
    @property
    def untrusted(self) -> str | None: ...
    @property
    def messages(self) -> list[str]: ...
    @staticmethod
    def open(folder: str, store: str | None, project: str | None) -> Engine: ...
    def check_process(self) -> None: ...
    def close(self) -> None: ...
    def run(
        self,
        id: str | None,
        *,
        title: str | None,
        profile: str | None,
        plan: str | None,
        new_round: bool,
        must_be_new: bool,
        continues: str | None,
    ) -> RunHandle: ...
    def runs(self, status: str | None, limit: int) -> list[RunSummary]: ...
    def resumable_runs(self) -> list[RunSummary]: ...
    def dismiss(self, run: str) -> None: ...
    def delete(self, run: str) -> int: ...
    def tasks(self, run: str) -> list[Task]: ...
    def list_checkpoints(
        self, run: str | None, limit: int, status: str | None, tag: str | None
    ) -> tuple[list[CheckpointSummary], list[Damage]]: ...
    def show(self, name: str, run: str | None) -> Checkpoint: ...
    def state_text(self, name: str, run: str | None) -> str: ...
    def conversation(self, run: str) -> list[Message]: ...
    def brief(self, name: str, budget: int | None) -> str: ...
    def search(
        self,
        text: str,
        *,
        kinds: list[str],
        run: str | None,
        agent: str | None,
        since: float | None,
        limit: int,
        prefix_last: bool,
    ) -> SearchResults: ...
    def mark(
        self, name: str, pin: bool | None, tags: list[str], untag: list[str]
    ) -> tuple[bool, list[str]]: ...
    def threads(self, key: bytes | None, keep_newest: int | None) -> Threads: ...
    def verify(self, run: str | None) -> VerifyReport: ...
    def plan_restore(self, name: str, scope: Scope) -> RestorePlanData: ...
    def restore(self, name: str, scope: Scope, token: str | None) -> RestoreReport: ...
    def undo(self, id: str | None, scope: Scope) -> RestoreReport: ...
    def undo_points(self) -> list[UndoPoint]: ...
    def sync(self) -> SyncReport: ...

@final
class RunHandle:
    @property
    def id(self) -> str: ...
    @property
    def rejoined(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    def check_process(self) -> None: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...
    def state_text(self) -> str | None: ...
    def put(self, text: str) -> None: ...
    def save(self, content: Content) -> Saved: ...
    def snapshot(self, content: Content) -> Saved: ...
    def save_after_error(self, why: str) -> Saved: ...
    def finish(
        self, status: str, content: Content, failure: str | None, interrupted: str | None
    ) -> Saved: ...
    def is_done(self, task: str) -> bool: ...
    def tasks(self) -> list[Task]: ...
    def begin_task(self, task: str) -> TaskHandle: ...
    def set_task(self, task: str, status: str, title: str | None) -> Saved | None: ...
    def step(self, id: str, status: str, title: str | None) -> Saved | None: ...
    def criterion(self, id: str, status: str, subject: str) -> None: ...
    def phase(self, number: int, name: str) -> None: ...
    def note(self, text: str) -> None: ...
    def decide(self, text: str, instead_of: str | None) -> None: ...
    def prompt(self, text: str) -> None: ...
    def answer(self, question: str, text: str) -> None: ...
    def plan(self, text: str, is_approved: bool) -> None: ...
    def reply(self, text: str) -> None: ...
    def record(
        self,
        command: str,
        *,
        exit_code: int | None,
        result: str | None,
        output: str,
        duration: float,
        kind: str,
        reason: str | None,
    ) -> None: ...
    def autosave(self, options: TimerOptions) -> TimerHandle: ...
    def heartbeat(self, options: TimerOptions) -> TimerHandle: ...

@final
class TaskHandle:
    @property
    def id(self) -> str: ...
    @property
    def has_ended(self) -> bool: ...
    def complete(self, state: str | None) -> Saved: ...
    def fail(self, why: str) -> Saved: ...
    def skip(self) -> Saved: ...
    def interrupt(self) -> None: ...

@final
class TimerHandle:
    @property
    def is_running(self) -> bool: ...
    def stop(self) -> None: ...
    def cancel(self) -> None: ...

@final
class Threads:
    def put(
        self,
        *,
        thread: str,
        namespace: str,
        id: str,
        parent: str | None,
        invocation: str | None,
        checkpoint: tuple[str, bytes],
        metadata: tuple[str, bytes],
        values: Sequence[tuple[str, str, bytes]],
        derived: Sequence[str],
        summary: str | None,
    ) -> None: ...
    def put_writes(
        self,
        *,
        thread: str,
        namespace: str,
        id: str,
        writes: Sequence[tuple[str, str, int, str, str, bytes]],
        replace: bool,
    ) -> None: ...
    def find(self, thread: str, namespace: str, id: str | None) -> ThreadEntry | None: ...
    def list(
        self, *, thread: str | None, namespace: str | None, id: str | None, before: str | None
    ) -> ThreadEntries: ...
    def metadata(self, entry: ThreadEntry) -> tuple[str, bytes]: ...
    def load(self, entry: ThreadEntry) -> LoadedCheckpoint | None: ...
    def history(
        self, entry: ThreadEntry, names: Sequence[str]
    ) -> dict[str, tuple[tuple[str, bytes] | None, builtins.list[tuple[str, str, str, bytes]]]]: ...
    def delete_thread(self, thread: str) -> bool: ...
    def delete_invocations(self, invocations: Sequence[str]) -> int: ...
    def copy_thread(self, source: str, target: str) -> int: ...
    def prune(self, thread: str, keep: int) -> int: ...
    def flush_removals(self) -> None: ...
    def check_process(self) -> None: ...

@final
class ThreadEntry:
    @property
    def thread(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def snapshot_id(self) -> str: ...

@final
class ThreadEntries:
    def __iter__(self) -> Self: ...
    def __next__(self) -> ThreadEntry: ...

@final
class LoadedCheckpoint:
    @property
    def checkpoint(self) -> tuple[str, bytes]: ...
    @property
    def metadata(self) -> tuple[str, bytes]: ...
    @property
    def values(self) -> list[tuple[str, str, bytes]]: ...
    @property
    def writes(self) -> list[tuple[str, str, str, bytes]]:
        """Task, channel, encoding and value of each write."""
