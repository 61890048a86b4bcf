"""The examples, as programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name: str, *arguments: str, status: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == status, ran.stderr
    return ran.stdout


def test_the_orchestrator_continues_after_a_crash() -> None:
    first = example("orchestrator", "crash", status=1)
    assert first == "starts orchestrator\nfetch: done now\nparse: done now\n"
    second = example("orchestrator")
    assert second.splitlines() == [
        "continues orchestrator",
        "fetch: done before",
        "parse: done before",
        "build: done now",
        "test: done now",
        "results: fetch-result, parse-result, build-result, test-result",
    ]


def test_the_workers_download_everything() -> None:
    assert example("async_workers") == "6 of 6 downloaded\n"


def test_the_supervisor_continues_what_was_left() -> None:
    assert example("supervisor") == "0 interrupted\n"
    example("orchestrator", "crash", status=1)
    out = example("supervisor")
    assert "1 interrupted\norchestrator: tool_failure (RuntimeError: the disk" in out
    assert "continued with 2 tasks" in out


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"orchestrator", "async_workers", "supervisor"}
