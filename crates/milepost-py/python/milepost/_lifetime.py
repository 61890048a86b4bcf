"""What happens to handles when a process forks and when the interpreter ends."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from milepost import _milepost

if TYPE_CHECKING:
    from milepost.run import Run
    from milepost.timer import Timer

runs: WeakSet[Run] = WeakSet()
timers: WeakSet[Timer] = WeakSet()


def _in_child() -> None:
    for run in list(runs):
        run.leave_to_parent()
    runs.clear()
    timers.clear()


def _at_exit() -> None:
    for timer in list(timers):
        timer.cancel()
    _milepost.stop_callbacks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
