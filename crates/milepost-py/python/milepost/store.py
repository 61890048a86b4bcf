"""The store of a project: opens runs, lists, shows, searches, restores and verifies."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from milepost import _milepost
from milepost._arguments import Scope
from milepost.errors import MilepostWarning
from milepost.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType

    from typing_extensions import Self

    StrPath = Union[str, os.PathLike[str]]


def open(
    path: StrPath | None = None, *, store: str | None = None, project: str | None = None
) -> Milepost:
    """Open the store of the project that contains `path` (default: the current folder), and create it if needed.

    It is the store that the command `milepost` uses there, with the same settings. `store` selects another one, such as
    `sqlite:FILE`, `files:FOLDER` or `postgres://HOST/DATABASE`. `project` is the id of the project whose runs are used in
    a store on a server, instead of that of this folder. A store that is not trusted is opened read-only, with a
    warning.
    """
    mp = Milepost(_milepost.Engine.open(os.fspath(path if path is not None else "."), store, project))
    for message in mp.messages:
        warnings.warn(message, MilepostWarning, stacklevel=2)
    return mp


@dataclass(frozen=True)
class CheckpointList:
    """Checkpoints, newest first. Iterating over it yields the intact ones."""

    checkpoints: Sequence[_milepost.CheckpointSummary]
    damaged: Sequence[_milepost.Damage]
    """Damaged rows, which are not among the checkpoints."""

    def __iter__(self) -> Iterator[_milepost.CheckpointSummary]:
        return iter(self.checkpoints)

    def __len__(self) -> int:
        return len(self.checkpoints)

    def __getitem__(self, index: int) -> _milepost.CheckpointSummary:
        return self.checkpoints[index]


class Milepost:
    """The open store of a project. Use `milepost.open`. Methods can be called from any thread."""

    def __init__(self, engine: _milepost.Engine) -> None:
        self._engine = engine

    @property
    def root(self) -> Path:
        """The root folder of the project."""
        return Path(self._engine.root)

    @property
    def store(self) -> str:
        """The address of the store, without a password."""
        return self._engine.store

    @property
    def untrusted(self) -> str | None:
        """Why the store is not trusted; `None` if it is. Writes to such a store fail."""
        return self._engine.untrusted

    @property
    def messages(self) -> list[str]:
        """Warnings about the store and its settings, when it was opened."""
        return self._engine.messages

    def __repr__(self) -> str:
        return f"Milepost({self.store!r})"

    def check_process(self) -> None:
        """Raise `Forked` in a process that a fork created."""
        self._engine.check_process()

    def close(self) -> None:
        """Close the store. Runs that are open keep it open until they are closed."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def threads(self, *, key: bytes | None = None, keep_newest: int | None = None) -> _milepost.Threads:
        """The threads of this store, for savers of frameworks. Most programs use `milepost.langgraph` instead."""
        return self._engine.threads(key, keep_newest)

    # Runs

    def run(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        profile: str | None = None,
        plan: str | None = None,
        new_round: bool = False,
        must_be_new: bool = False,
    ) -> Run:
        """Continue the run with this id, or start it. Without an id, start a run with a generated one.

        Raises `RunActive` if its owner is alive. `new_round` starts a completed run over: its tasks can run again.
        """
        handle = self._engine.run(
            id,
            title=title,
            profile=profile,
            plan=plan,
            new_round=new_round,
            must_be_new=must_be_new or id is None,
            continues=None,
        )
        return Run(handle)

    def runs(self, *, status: str | None = None, limit: int = 0) -> list[_milepost.RunSummary]:
        """Runs, most recently written first. `limit=0` lists all."""
        return self._engine.runs(status, limit)

    def tasks(self, run: str) -> list[_milepost.Task]:
        """All tasks of a run."""
        return self._engine.tasks(run)

    def resume(self) -> list[Resumable]:
        """Runs that stopped before they were finished and can be continued, in the order of `milepost resume`."""
        return [Resumable(self, run) for run in self._engine.resumable_runs()]

    def continue_run(self, run: str, *, id: str | None = None, title: str | None = None) -> Run:
        """Start a run that continues another program's interrupted run: it has its state, tasks and decisions.

        If several programs try, one succeeds and the others get `NotResumable`.
        """
        handle = self._engine.run(
            id,
            title=title,
            profile=None,
            plan=None,
            new_round=False,
            must_be_new=True,
            continues=run,
        )
        return Run(handle)

    def dismiss(self, run: str) -> None:
        """Stop offering an interrupted run, until it is started again."""
        self._engine.dismiss(run)

    def delete(self, run: str) -> int:
        """Delete a run with all its checkpoints, and return their number."""
        return self._engine.delete(run)

    def conversation(self, run: str) -> list[_milepost.Message]:
        """What was said in a run and in the runs that it continues, oldest first."""
        return self._engine.conversation(run)

    # Checkpoints

    def list(
        self,
        run: str | None = None,
        *,
        limit: int = 0,
        status: str | None = None,
        tag: str | None = None,
    ) -> CheckpointList:
        """Checkpoints, newest first. `limit=0` lists all."""
        checkpoints, damaged = self._engine.list_checkpoints(run, limit, status, tag)
        return CheckpointList(tuple(checkpoints), tuple(damaged))

    def show(self, reference: str = "latest", *, run: str | None = None) -> _milepost.Checkpoint:
        """Read a checkpoint: `latest`, `latest~2`, `RUN@3`, an id, the start of one, a tag, or the id of a run."""
        return self._engine.show(reference, run)

    def state(self, reference: str = "latest", *, run: str | None = None) -> Any:
        """The state as of a checkpoint: its own, or the nearest earlier one in its run."""
        return _milepost.decode_state(self._engine.state_text(reference, run))

    def brief(self, run: str = "latest", *, budget: int | None = None) -> str:
        """What is needed to continue a run, as Markdown, in at most `budget` tokens. Also takes a checkpoint."""
        return self._engine.brief(run, budget)

    def mark(
        self,
        reference: str,
        *,
        pin: bool | None = None,
        tags: Iterable[str] = (),
        untag: Iterable[str] = (),
    ) -> tuple[bool, Sequence[str]]:
        """Pin or tag a checkpoint, so that retention keeps it. Returns whether it is pinned, and its tags."""
        pinned, now = self._engine.mark(reference, pin, [*tags], [*untag])
        return pinned, tuple(now)

    def search(
        self,
        text: str,
        *,
        kinds: Iterable[str] = (),
        run: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        limit: int = 10,
        prefix_last: bool = False,
    ) -> _milepost.SearchResults:
        """Search what runs recorded. `kinds` are prompt, decision, failure, file, brief and summary.

        `prefix_last` takes the last word as the start of a word, for a search while the user types.
        """
        return self._engine.search(
            text,
            kinds=[*kinds],
            run=run,
            agent=agent,
            since=since.timestamp() if since is not None else None,
            limit=limit,
            prefix_last=prefix_last,
        )

    # Files

    def restore_plan(
        self,
        reference: str = "latest",
        *,
        paths: Iterable[StrPath] = (),
        all: bool = False,
        force: bool = False,
        current_run: str | None = None,
    ) -> RestorePlan:
        """Plan to bring files back to a checkpoint. Changes nothing; `RestorePlan.apply` does.

        Without `paths`, these are the files that the run changed. `all` includes every file that differs, and `force` those
        that someone else changed. `current_run` is the run that the caller works in.
        """
        scope = Scope(
            paths=[_absolute(path) for path in paths],
            all=all,
            force=force,
            current_run=current_run,
        )
        return RestorePlan(self._engine, self._engine.plan_restore(reference, scope), scope)

    def restore(
        self,
        reference: str = "latest",
        *,
        paths: Iterable[StrPath] = (),
        all: bool = False,
        force: bool = False,
        current_run: str | None = None,
    ) -> _milepost.RestoreReport:
        """Bring files back to a checkpoint. The present ones are saved first, and `undo` brings them back."""
        plan = self.restore_plan(
            reference, paths=paths, all=all, force=force, current_run=current_run
        )
        return plan.apply()

    def undo(
        self, id: str | None = None, *, force: bool = False, current_run: str | None = None
    ) -> _milepost.RestoreReport:
        """Undo a restore: the newest one, or the one with this id. Undoing an undo restores again."""
        scope = Scope(paths=[], all=False, force=force, current_run=current_run)
        return self._engine.undo(id, scope)

    def undo_points(self) -> Sequence[_milepost.UndoPoint]:
        """The restores that can be undone, newest first."""
        return self._engine.undo_points()

    # The store

    def verify(self, run: str | None = None) -> _milepost.VerifyReport:
        """Read everything in the store, or in a run, and report what is damaged. Changes nothing."""
        return self._engine.verify(run)

    def sync(self) -> _milepost.SyncReport:
        """Send what waits on this machine to the server of the store. Does nothing for a store without one."""
        return self._engine.sync()


def _absolute(path: StrPath) -> str:
    # The last component stays as it is, because it may be a link that is restored itself.
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


class RestorePlan:
    """What a restore would do. `files` lists each file with its action."""

    def __init__(
        self,
        engine: _milepost.Engine,
        plan: _milepost.RestorePlanData,
        scope: Scope,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._scope = scope

    @property
    def reference(self) -> str:
        """The checkpoint that the files are restored from."""
        return self._plan.reference

    @property
    def run_id(self) -> str:
        """The run whose files are restored."""
        return self._plan.run_id

    @property
    def taken_at(self) -> datetime:
        """When the files were captured."""
        return self._plan.taken_at

    @property
    def files(self) -> list[_milepost.PlannedFile]:
        """The files that differ, sorted by path."""
        return self._plan.files

    @property
    def changes(self) -> int:
        """Number of files that the restore changes."""
        return self._plan.changes

    @property
    def left_alone(self) -> int:
        """Number of files that differ, but that the run did not change."""
        return self._plan.left_alone

    def __repr__(self) -> str:
        return f"RestorePlan(reference={self.reference!r}, changes={self.changes})"

    def apply(self) -> _milepost.RestoreReport:
        """Carry out the plan. Raises `RestoreRefused` if files changed since it was made."""
        return self._engine.restore(self._plan.reference, self._scope, self._plan.token)


class Resumable:
    """An interrupted run that can be continued."""

    def __init__(self, mp: Milepost, run: _milepost.RunSummary) -> None:
        self._mp = mp
        self.run = run
        """The run as `Milepost.runs` lists it."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    @property
    def why(self) -> str:
        """Why it stopped, such as process_crash, interrupted or tool_failure."""
        return self.run.why or "unknown"

    @property
    def detail(self) -> str | None:
        """More about it, such as the text of the exception."""
        return self.run.detail

    def brief(self, budget: int | None = None) -> str:
        """What is needed to continue it, as Markdown."""
        return self._mp.brief(self.run_id, budget=budget)

    def start(self, *, id: str | None = None, title: str | None = None) -> Run:
        """Start a run that continues it."""
        return self._mp.continue_run(self.run_id, id=id, title=title)

    def dismiss(self) -> None:
        """Stop offering it."""
        self._mp.dismiss(self.run_id)

    def __repr__(self) -> str:
        return f"Resumable(run_id={self.run_id!r}, why={self.why!r})"
