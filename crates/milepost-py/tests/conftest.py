"""What the tests share: a project in a folder of its own, and the program."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import uuid
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Callable

import milepost
import pytest
from milepost._command import find_program

warnings.simplefilter("error", milepost.MilepostWarning)

POSTGRES = os.environ.get("MILEPOST_TEST_POSTGRES_URL")
"""The address of a server for tests, if there is one."""


def new_postgres_store() -> str:
    """The address of a store of its own on the test server."""
    if POSTGRES is None:
        pytest.skip("no PostgreSQL server")
    separator = "&" if "?" in POSTGRES else "?"
    return f"{POSTGRES}{separator}schema=t{uuid.uuid4().hex}"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project without git, in which the test works, with a home folder of its own."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("MILEPOST_", "XDG_", "CLAUDE", "CODEX", "GEMINI")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path.resolve() / "home"))
    monkeypatch.chdir(folder)
    yield folder


@pytest.fixture
def mp(project: Path) -> milepost.Milepost:
    """The open store of the project."""
    return milepost.open()


def milepost_command(*arguments: str, check: bool = True, **options: str) -> str:
    """Run the program in the project, and return what it prints."""
    ran = subprocess.run(
        [str(find_program()), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **options},
    )
    if check and ran.returncode != 0:
        raise AssertionError(f"milepost {' '.join(arguments)}: {ran.returncode}\n{ran.stderr}")
    return ran.stdout


@pytest.fixture
def command() -> Callable[..., str]:
    return milepost_command


@contextlib.contextmanager
def locked(project: Path) -> Generator[None, None, None]:
    """Another process writes to the store, and does not end."""
    path = next(project.rglob("milepost.db-lock"))
    hold = """
    import fcntl, sys
    file = open(sys.argv[1], "r+")
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(hold), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "locked\n"
    try:
        yield
    finally:
        process.communicate()


def start(source: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program in the project."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(source: str, *arguments: str, timeout: float = 60) -> str:
    """Run a Python program in the project to its end, and return what it prints."""
    process = start(source, *arguments)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"exit {process.returncode}\n{err}"
    assert err == "", err
    return out
