"""What happens to handles when a process forks and when the interpreter ends."""

from __future__ import annotations

import atexit
import os
from typing import Protocol
from weakref import WeakSet

from milepost import _milepost


class OpenRun(Protocol):
    """A run of this process."""

    def leave_to_parent(self) -> None: ...


class RunningTimer(Protocol):
    """A timer of this process."""

    def cancel(self) -> None: ...


runs: WeakSet[OpenRun] = WeakSet()
timers: WeakSet[RunningTimer] = WeakSet()


def _in_child() -> None:
    _milepost.after_fork_in_child()
    for run in list(runs):
        run.leave_to_parent()
    runs.clear()
    timers.clear()


def _at_exit() -> None:
    for timer in list(timers):
        timer.cancel()
    _milepost.stop_callbacks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_milepost.before_fork,
        after_in_parent=_milepost.after_fork_in_parent,
        after_in_child=_in_child,
    )
atexit.register(_at_exit)
