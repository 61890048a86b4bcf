"""Executes calls that can wait in threads of their own, so that an event loop is never blocked."""

from __future__ import annotations

import asyncio
import functools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, TypeVar

from milepost.errors import MilepostError
from milepost.run import warn_not_recorded

T = TypeVar("T")


class Workers:
    """Executes calls in threads of its own. In a process that a fork created, it starts new ones."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pid = 0
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        if self._executor is None or self._pid != os.getpid():
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="milepost")
            self._pid = os.getpid()
        return self._executor.submit(work)

    def shutdown(self) -> None:
        if self._executor is not None and self._pid == os.getpid():
            self._executor.shutdown(wait=False)
            # A call that comes later gets a new one.
            self._executor = None

    async def call(self, work: Callable[[], T], discard: Callable[[T], object] | None = None) -> T:
        """Await a call. If the await is cancelled, the call still ends, and `discard` gets its result."""
        future = self.submit(work)
        waiting = asyncio.wrap_future(future)
        try:
            # Without the shield, cancelling would cancel a call that has not begun.
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            waiting.add_done_callback(_retrieve)
            if discard is not None:
                future.add_done_callback(functools.partial(_discard, discard))
            raise


def _retrieve(waiting: asyncio.Future[Any]) -> None:
    # asyncio logs an exception that is never retrieved.
    if not waiting.cancelled():
        waiting.exception()


def _discard(discard: Callable[[T], object], future: Future[T]) -> None:
    if future.exception() is not None:
        return
    try:
        discard(future.result())
    except MilepostError as error:
        warn_not_recorded("a cancelled call", error)
