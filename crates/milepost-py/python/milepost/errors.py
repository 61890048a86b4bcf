"""Exceptions and warnings. `reason` is the same code that the command line reports with `--json`."""

from __future__ import annotations


class MilepostError(Exception):
    """Any error of Milepost."""

    reason: str
    """A stable code, such as `run_not_found`, that programs can compare."""
    hint: str | None
    """How to fix the problem, for people. It may name a command."""

    def __init__(self, message: str, reason: str = "usage", hint: str | None = None) -> None:
        # The arguments are those of the constructor, so that the exception can be pickled.
        super().__init__(message, reason, hint)
        self.reason = reason
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0])


class StoreError(MilepostError):
    """The store could not be read or written. What was acknowledged before is intact."""


class StoreBusy(StoreError):
    """Another process was writing for longer than the configured wait."""


class Untrusted(StoreError):
    """Someone else may have made the store or the settings, and this user has not trusted them."""


class NotFound(MilepostError, LookupError):
    """There is no such run, checkpoint, state or file."""


class Damaged(MilepostError):
    """Stored bytes differ from those that were written."""


class InvalidValue(MilepostError, ValueError):
    """An argument or a state is not valid, or is over a size limit."""


class RunActive(MilepostError):
    """The owner of the run is alive: another process, or another handle in this one."""


class NotResumable(MilepostError):
    """The run cannot be continued, or another process was faster. `reason` says why."""


class RestoreRefused(MilepostError):
    """Files were not restored, because something changed since."""


class Forked(MilepostError):
    """The handle belongs to the parent of this process. Open the store again."""


class MilepostWarning(UserWarning):
    """A message that the command line would print, such as a store that is not trusted."""
