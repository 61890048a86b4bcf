"""The published conformance suite for LangGraph's savers, on every kind of store."""

# LangGraph's own types are incomplete, and tests rely on what the types leave open.
# pyright: basic, reportTypedDictNotRequiredAccess=false, reportIndexIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalSubscript=false, reportAttributeAccessIssue=false
# mypy: disable-error-code="arg-type,index,no-any-return,union-attr,var-annotated"

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from conftest import new_postgres_store

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from milepost.langgraph import MilepostSaver

# What version 0.0.2 on PyPI contains. The version of the repository has 8 more, for the history of delta channels.
PUBLISHED = 81


@pytest.mark.parametrize("kind", ["sqlite", "files", "postgres", "encrypted"])
def test_every_published_test_passes(kind: str, project: Path) -> None:
    if kind == "postgres":
        address = new_postgres_store()
    else:
        address = {"files": "files:store"}.get(kind, "sqlite:checkpoints.db")
    key = bytes(range(32)) if kind == "encrypted" else None

    @checkpointer_test(name=f"MilepostSaver {kind} {uuid.uuid4()}")
    async def factory() -> AsyncGenerator[MilepostSaver, None]:
        async with MilepostSaver.from_conn_string(address, key=key) as saver:
            yield saver

    report = asyncio.run(validate(factory))
    failures = [failure for result in report.results.values() for failure in result.failures or []]
    assert not failures, failures
    passed = sum(result.tests_passed or 0 for result in report.results.values())
    assert passed >= PUBLISHED
    assert all(result.detected for result in report.results.values())
