"""Exceptions, their reasons and hints, and stores that are not trusted."""

from __future__ import annotations

import os
import pickle
import sqlite3
from pathlib import Path
from typing import Callable

import milepost
import pytest


def test_exceptions_have_reasons_and_hints(mp: milepost.Milepost) -> None:
    cases: list[tuple[Callable[[], object], type[milepost.MilepostError], str]] = [
        (lambda: mp.show("nothing"), milepost.NotFound, "checkpoint_not_found"),
        (lambda: mp.tasks("nothing"), milepost.NotFound, "run_not_found"),
        (lambda: mp.run("a/b"), milepost.InvalidValue, "checkpoint_id_invalid"),
        (lambda: mp.runs(status="late"), milepost.InvalidValue, "checkpoint_schema_invalid"),
        (lambda: mp.restore_plan("nothing"), milepost.NotFound, "checkpoint_not_found"),
        (lambda: mp.undo(), milepost.NotFound, "checkpoint_not_found"),
        (lambda: milepost.open(store="ftp://x"), milepost.InvalidValue, "usage"),
    ]
    for call, kind, reason in cases:
        with pytest.raises(kind) as raised:
            call()
        error = raised.value
        assert error.reason == reason
        assert str(error) and "\n" not in str(error)
    with pytest.raises(LookupError):
        mp.show("nothing")


def test_exceptions_can_be_pickled(mp: milepost.Milepost) -> None:
    with pytest.raises(milepost.NotFound) as raised:
        mp.show("nothing")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is milepost.NotFound
    assert (str(copy), copy.reason, copy.hint) == (
        str(raised.value),
        raised.value.reason,
        raised.value.hint,
    )


def test_a_closed_store_is_refused(mp: milepost.Milepost) -> None:
    with mp:
        run = mp.run("r")
    with pytest.raises(milepost.MilepostError, match="the store is closed"):
        mp.runs()
    run.save("still works")
    run.finish()


def test_damage_is_reported(mp: milepost.Milepost, project: Path) -> None:
    with mp.run("r") as run:
        run.save("x" * 3000)
    mp.close()
    database = next(project.rglob("milepost.db"))
    connection = sqlite3.connect(database)
    names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    for (table,) in names:
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        for column in {"data", "body"} & set(columns):
            connection.execute(f"update {table} set {column} = zeroblob(length({column}))")
    connection.commit()
    connection.close()
    again = milepost.open()
    with pytest.raises(milepost.Damaged) as raised:
        again.show("r@1")
    assert raised.value.hint and "verify" in raised.value.hint
    report = again.verify()
    assert not report.is_intact and report.damaged[0].reason


def test_a_foreign_store_is_read_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with milepost.open() as mp, mp.run("r") as run:
        run.save("mine")
    # Another user of the same machine, as far as the record of trusted stores goes.
    monkeypatch.setenv("HOME", str(project.parent / "other"))
    with pytest.warns(milepost.MilepostWarning, match="is not trusted"):
        mp = milepost.open()
    assert mp.untrusted
    assert mp.show("r").summary == "mine"
    with pytest.raises(milepost.Untrusted) as raised:
        mp.run("r2")
    assert raised.value.reason == "store_untrusted"
    # A store that the caller names is the caller's own choice.
    named = milepost.open(store=mp.store)
    assert named.untrusted is None
    # An agent does not read a foreign store at all.
    monkeypatch.setenv("CLAUDECODE", "1")
    with pytest.raises(milepost.Untrusted):
        milepost.open()


def test_a_configured_store_needs_trust(project: Path) -> None:
    (project / "milepost.toml").write_text('store = "sqlite:elsewhere.db"\n')
    with pytest.raises(milepost.Untrusted) as raised:
        milepost.open()
    assert raised.value.reason == "config_untrusted"


def test_settings_are_those_of_the_command(project: Path, command: Callable[..., str]) -> None:
    command("init")
    (project / "milepost.toml").write_text("[limits]\nfield = 1000\n")
    with pytest.warns(milepost.MilepostWarning, match="limits.field"):
        mp = milepost.open()
    mp.close()
    # The same limit in the user's own file applies.
    (project / "milepost.toml").unlink()
    user = Path(os.environ["HOME"]) / ".config/milepost"
    user.mkdir(parents=True)
    (user / "config.toml").write_text("[limits]\nfield = 1000\n")
    with milepost.open() as mp, mp.run("r") as run:
        with pytest.raises(milepost.InvalidValue, match="limit"):
            run.save(state="x" * 2000)
    (user / "config.toml").write_text("[limits]\nfield = 'many'\n")
    with pytest.raises(milepost.InvalidValue) as raised:
        milepost.open()
    assert raised.value.reason == "usage"


@pytest.mark.parametrize("address", ["sqlite:own.db", "files:own"])
def test_a_store_can_be_selected(
    project: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    with milepost.open(store=address) as mp, mp.run("r") as run:
        run.save("here")
    assert (project / address.split(":")[1]).exists()
    assert milepost.open().runs() == []
    monkeypatch.setenv("MILEPOST_STORE", address)
    assert [run.run_id for run in milepost.open().runs()] == ["r"]


def test_a_server_that_cannot_be_reached_is_no_crash(project: Path) -> None:
    mp = milepost.open(store="postgres://nobody@127.0.0.1:1/none?sslmode=disable")
    with pytest.raises(milepost.StoreError, match="cannot connect") as raised:
        mp.run("r")
    assert raised.value.reason == "store_unavailable"
    assert raised.value.hint and "server is running" in raised.value.hint
