"""Checkpoints for long-running work: sealed, durable, resumable.

>>> import milepost
>>> mp = milepost.open()
>>> with mp.run("nightly") as run:
...     if not run.is_done("parse"):
...         with run.task("parse"):
...             pass

`milepost.aio` has the same operations for asyncio.
"""

from milepost._milepost import (
    Checkpoint,
    CheckpointSummary,
    Damage,
    Decision,
    KeptFile,
    Message,
    PlannedFile,
    RestoreReport,
    RunSummary,
    Saved,
    SearchHit,
    SearchResults,
    SyncReport,
    UndoPoint,
    VerifyReport,
)
from milepost._milepost import Task as TaskInfo
from milepost.errors import (
    Damaged,
    Forked,
    InvalidValue,
    MilepostError,
    MilepostWarning,
    NotFound,
    NotResumable,
    RestoreRefused,
    RunActive,
    StoreBusy,
    StoreError,
    Untrusted,
)
from milepost.run import Run, Task
from milepost.store import CheckpointList, Milepost, RestorePlan, Resumable, open
from milepost.timer import Timer

__all__ = [
    "Checkpoint",
    "CheckpointList",
    "CheckpointSummary",
    "Damage",
    "Damaged",
    "Decision",
    "Forked",
    "InvalidValue",
    "KeptFile",
    "Message",
    "Milepost",
    "MilepostError",
    "MilepostWarning",
    "NotFound",
    "NotResumable",
    "PlannedFile",
    "RestorePlan",
    "RestoreRefused",
    "RestoreReport",
    "Resumable",
    "Run",
    "RunActive",
    "RunSummary",
    "Saved",
    "SearchHit",
    "SearchResults",
    "StoreBusy",
    "StoreError",
    "SyncReport",
    "Task",
    "TaskInfo",
    "Timer",
    "UndoPoint",
    "Untrusted",
    "VerifyReport",
    "open",
]
