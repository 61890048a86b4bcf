"""Groups of arguments for the native module."""

from __future__ import annotations

from typing import Callable, Optional, TypedDict

from milepost.errors import MilepostError


class Content(TypedDict):
    """The content of a checkpoint. The state is JSON text."""

    summary: Optional[str]
    state: Optional[str]
    tags: list[str]
    pin: bool
    reason: Optional[str]


class Scope(TypedDict):
    """Which files a restore may change."""

    paths: list[str]
    all: bool
    force: bool
    current_run: Optional[str]


class TimerOptions(TypedDict):
    """The interval of a timer in seconds, and what it calls."""

    interval: float
    provider: Optional[Callable[[], object]]
    on_error: Optional[Callable[[MilepostError], object]]
