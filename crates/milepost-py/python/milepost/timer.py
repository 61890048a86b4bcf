"""Timers that save while the program works."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from milepost import _lifetime, _milepost
from milepost.errors import MilepostError, MilepostWarning

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


def warn_not_saved(error: MilepostError) -> None:
    """Report a failed save as a warning. This is what a timer does without `on_error`."""
    warnings.warn(f"not saved: {error}", MilepostWarning, stacklevel=2)


class Timer:
    """A running timer. It stops with its run, with `stop`, and at the end of the program."""

    def __init__(self, run: _milepost.RunHandle, handle: _milepost.TimerHandle) -> None:
        self._run = run
        self._handle = handle
        _lifetime.timers.add(self)

    def put(self, state: object) -> None:
        """Set the state of the run. The next tick saves it."""
        self._run.put(_milepost.encode_state(state))

    def stop(self) -> None:
        """Stop the timer and wait for a save in progress. Can be called more than once."""
        self._handle.stop()

    def cancel(self) -> None:
        """Stop the timer without waiting."""
        self._handle.cancel()

    @property
    def is_running(self) -> bool:
        """Whether the timer has not been stopped."""
        return self._handle.is_running

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
