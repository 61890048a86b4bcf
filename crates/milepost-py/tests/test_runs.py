"""Runs, tasks, states and what else a run records."""

from __future__ import annotations

import enum
import math
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import milepost
import pytest


def test_a_run_is_started_and_ends_with_its_block(mp: milepost.Milepost) -> None:
    with mp.run("nightly", title="Nightly build", plan="plan.toml") as run:
        assert (run.id, run.rejoined, run.state) == ("nightly", False, None)
        assert repr(run) == "Run('nightly')"
        assert mp.runs()[0].state == "live"
    (found,) = mp.runs()
    assert (found.run_id, found.title, found.state, found.status) == (
        "nightly",
        "Nightly build",
        "completed",
        "completed",
    )
    assert found.plan == "plan.toml"
    assert found.latest == "nightly@1"
    assert found.is_foreign is False
    assert mp.runs(status="failed") == []
    assert repr(found) == "RunSummary(run_id='nightly', state='completed', title='Nightly build')"


def test_a_run_without_an_id_gets_one(mp: milepost.Milepost) -> None:
    with mp.run() as first, mp.run() as second:
        assert first.id != second.id


def test_a_completed_run_can_start_over(mp: milepost.Milepost) -> None:
    with mp.run("r") as run, run.task("t"):
        pass
    with mp.run("r") as run:
        assert run.rejoined
        assert run.is_done("t")
    with mp.run("r", new_round=True) as run:
        assert not run.is_done("t")
    with pytest.raises(milepost.InvalidValue, match="already exists"):
        mp.run("r", must_be_new=True)


def test_an_exception_fails_the_run_with_its_reason(mp: milepost.Milepost) -> None:
    with pytest.raises(ZeroDivisionError), mp.run("r"):
        _ = 1 // 0
    (found,) = mp.runs()
    assert found.state == "failed"
    assert found.detail == "ZeroDivisionError: integer division or modulo by zero"
    (resumable,) = mp.resume()
    assert (resumable.run_id, resumable.why) == ("r", "tool_failure")
    assert resumable.detail == found.detail
    assert "ZeroDivisionError" in mp.show("r").notes[-1]
    # The same process continues it.
    with mp.run("r") as run:
        assert run.rejoined


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [
        (KeyboardInterrupt(), "paused", "KeyboardInterrupt"),
        (SystemExit(0), "paused", "SystemExit: 0"),
        (SystemExit(3), "failed", "SystemExit: 3"),
        (GeneratorExit(), "paused", "GeneratorExit"),
    ],
)
def test_what_is_no_plain_exception(
    project: Path, error: BaseException, state: str, why: str
) -> None:
    from conftest import run as run_program

    source = f"""
    import milepost
    try:
        with milepost.open().run("r") as run, run.task("t"):
            raise {error!r}
    except BaseException as error:
        assert type(error).__name__ == {type(error).__name__!r}
    """
    run_program(source)
    mp = milepost.open()
    (found,) = mp.runs()
    assert found.status == state
    assert found.detail == why
    assert [task.status for task in mp.tasks("r")] == [
        "interrupted" if state == "paused" or "Exit" in why else "failed"
    ]
    if state == "paused":
        assert mp.resume()[0].why == "interrupted"


def test_a_task_is_completed_failed_or_interrupted(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        with run.task("done") as task:
            assert [t.status for t in run.tasks()] == ["in_progress"]
            saved = task.complete({"n": 1})
            assert saved.reference == "r@1"
        with run.task("skipped") as task:
            task.skip()
        with run.task("failed") as task:
            task.fail("no database")
        with pytest.raises(ValueError, match="bad"), run.task("raised"):
            raise ValueError("bad")
        with pytest.raises(KeyboardInterrupt), run.task("stopped"):
            raise KeyboardInterrupt
        found = {task.id: task.status for task in run.tasks()}
        assert found == {
            "done": "done",
            "skipped": "skipped",
            "failed": "failed",
            "raised": "failed",
            "stopped": "interrupted",
        }
        assert run.is_done("done") and not run.is_done("failed") and not run.is_done("other")
        assert run.state == {"n": 1}
        assert any("ValueError: bad" in note for note in mp.show("r").notes)
        run.set_task("later", "pending", title="Later")
        assert mp.tasks("r")[-1].title == "Later"
    with pytest.raises(milepost.MilepostError, match="has not begun"):
        run.task("x").complete()


def test_a_decorated_function_is_skipped_if_its_task_is_done(mp: milepost.Milepost) -> None:
    calls: list[int] = []
    with mp.run("r") as run:

        @run.task("double")
        def double(n: int, *, by: int = 2) -> int:
            calls.append(n)
            return n * by

        assert double.__name__ == "double"
        assert double(4, by=3) == 12
        assert double(5) is None
        assert calls == [4]

        @run.task("raises")
        def raises() -> None:
            calls.append(0)
            raise OSError("no")

        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                raises()
        assert calls == [4, 0, 0]

        async def coroutine() -> None: ...

        with pytest.raises(TypeError, match=r"milepost\.aio"):
            run.task("x")(coroutine)


class Color(enum.IntEnum):
    RED = 7


@pytest.mark.parametrize(
    "state",
    [
        None,
        True,
        0,
        -(2**63),
        2**64 + 1,
        10**308,
        -(10**200),
        0.1,
        -0.0,
        1e308,
        5e-324,
        1e16,
        "é 漢字 🎉 \x00 \u2028 \" \\ \n",
        [],
        {},
        {"": [None, {"a": [1, 2.5, "x"]}], "ключ": {"n": 1}},
        ["x"] * 1000,
    ],
)
def test_a_state_is_read_as_it_was_saved(mp: milepost.Milepost, state: Any) -> None:
    with mp.run("r") as run:
        run.state = state
        assert run.state == state and type(run.state) is type(state)
        run.save()
    with mp.run("r") as run:
        found = run.state
    assert found == state and type(found) is type(state)
    assert mp.show("r@1").state == state
    assert mp.state("r") == state
    # Also the sign of zero.
    assert repr(found) == repr(state)


def test_an_integer_that_no_float_can_represent_is_refused(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        for state in (10**400, 10**5000):
            with pytest.raises(milepost.InvalidValue, match="too large|limit"):
                run.state = state


def test_subclasses_and_tuples_are_written_as_json(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        run.state = {"color": Color.RED, "pair": (1, 2), "flag": True}
        assert run.state == {"color": 7, "pair": [1, 2], "flag": True}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({1: 2}, "a key of type int is not a string"),
        ({"a": [{"b": {1}}]}, "/a/0/b: a value of type set cannot be written as JSON"),
        ([math.nan], "/0: JSON has no number for NaN"),
        (math.inf, "JSON has no number for inf"),
        ("\ud800", "surrogate"),
        (object(), "a value of type object cannot be written as JSON"),
        (datetime.now(), "a value of type datetime cannot be written as JSON"),
    ],
)
def test_what_is_no_json_is_refused(mp: milepost.Milepost, state: object, message: str) -> None:
    with mp.run("r") as run:
        run.state = "before"
        with pytest.raises(milepost.InvalidValue, match=message) as raised:
            run.state = state
        assert raised.value.reason == "checkpoint_schema_invalid"
        assert isinstance(raised.value, ValueError)
        assert run.state == "before"


def test_deep_and_cyclic_states_are_refused(mp: milepost.Milepost) -> None:
    deep: list[object] = []
    for _ in range(90):
        deep = [deep]
    cyclic: list[object] = []
    cyclic.append(cyclic)
    with mp.run("r") as run:
        run.save(state=deep)
        assert run.state == deep
        for _ in range(100_000):
            deep = [deep]
        for state in (cyclic, deep):
            with pytest.raises(milepost.InvalidValue, match="nests"):
                run.state = state


def test_a_state_of_five_megabytes_is_refused_with_a_hint(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        with pytest.raises(milepost.InvalidValue) as raised:
            run.save(state="x" * 5_000_000)
        assert raised.value.reason == "checkpoint_schema_invalid"
        assert raised.value.hint and "limits" in raised.value.hint
        # The run goes on with the state that it had.
        assert run.state is None
        run.save(state={"n": 1})
        assert mp.state("r") == {"n": 1}


def test_a_save_has_a_summary_tags_and_a_pin(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        saved = run.save("half done", tags=["half"], pin=True, reason="major_decision")
        assert (saved.run_id, saved.sequence, saved.status) == ("r", 1, "in_progress")
        assert saved.coalesced is False and saved.replaced == 0 and saved.pruned == []
        run.state = {"n": 1}
        assert run.save().sequence == 2
        run.save_after_error(OSError("disk"))
        run.finish(summary="all", state={"n": 2})
        with pytest.raises(AttributeError):
            saved.sequence = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    shown = mp.show("half")
    assert (shown.summary, shown.pinned, shown.tags) == ("half done", True, ["half"])
    assert abs(shown.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert mp.state("latest") == {"n": 2}
    assert mp.state("r@2") == {"n": 1}
    assert "recoverable error: OSError: disk" in mp.show("r@3").notes


def test_everything_else_is_recorded(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        run.note("a second pass")
        run.decide("JSON files")
        run.decide("SQLite", instead_of="JSON files")
        run.record("cargo test", 101, output="x" * 5000 + "\npanicked", duration=1.5)
        run.record("make", result="WARN", kind="tool_use")
        run.step("3", "in_progress", title="Parse")
        run.step("3", "done")
        run.criterion("tests", "pending", "all tests pass")
        run.phase(4, "BUILD")
        run.prompt("Never touch the billing folder.")
        run.plan("1. read", is_approved=True)
        run.answer("Which one?", "The second")
        run.reply("Done.")
        run.save()
        with pytest.raises(milepost.InvalidValue, match="exit_code or result"):
            run.record("x")
        with pytest.raises(milepost.InvalidValue):
            run.step("9", "done")
        with pytest.raises(milepost.InvalidValue, match="PASS, FAIL, WARN"):
            run.record("x", result="GOOD")
    shown = mp.show("r")
    assert [d.text for d in shown.decisions] == ["JSON files", "SQLite"]
    assert shown.decisions[1].supersedes == "JSON files"
    assert "a second pass" in shown.notes
    said = mp.conversation("r")
    assert [m.kind for m in said] == ["prompt", "plan", "answer", "reply"]
    assert said[1].is_approved is True and said[2].question == "Which one?"
    (hit,) = mp.search("panicked").hits
    assert hit.kind == "failure" and hit.excerpt[slice(*hit.matches[0])] == "panicked"


def test_secrets_are_redacted_as_by_the_command(mp: milepost.Milepost) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(RuntimeError), mp.run("r") as run:
        run.note(f"token {secret}")
        run.record("login", 1, output=f"{secret} is not valid")
        run.prompt(f"use {secret}")
        saved = run.save(f"with {secret}", state={"key": secret})
        assert saved.replaced > 0
        with run.task("t"):
            raise RuntimeError(secret)
    for checkpoint in mp.list("r"):
        assert secret not in mp.show(checkpoint.reference).document
    assert secret not in mp.conversation("r")[0].text
    assert secret not in (mp.runs()[0].detail or "")


def test_a_run_has_one_owner(mp: milepost.Milepost, project: Path) -> None:
    with mp.run("r") as run:
        with pytest.raises(milepost.RunActive) as raised:
            mp.run("r")
        assert raised.value.reason == "resume_run_active"
        assert raised.value.hint
        run.close()
        run.close()
        with pytest.raises(milepost.MilepostError, match="is closed"):
            run.save()
    # A closed run is not finished, and can be opened again.
    assert mp.runs()[0].status == "in_progress"
    with mp.run("r") as run:
        assert run.rejoined


def test_another_programs_run_is_continued_once(mp: milepost.Milepost) -> None:
    with pytest.raises(OSError), mp.run("first") as run:
        run.state = {"n": 1}
        with run.task("a"):
            pass
        run.decide("SQLite")
        raise OSError("gone")
    (resumable,) = mp.resume()
    assert "SQLite" in resumable.brief()
    assert len(resumable.brief(100)) < len(resumable.brief())
    assert repr(resumable) == "Resumable(run_id='first', why='tool_failure')"
    with resumable.start(id="second") as run:
        assert run.is_done("a")
        assert run.state == {"n": 1}
        run.save("continued")
        with pytest.raises(milepost.NotResumable) as raised:
            mp.continue_run("first")
        assert raised.value.reason == "resume_claimed"
    assert mp.resume() == []


def test_a_dismissed_run_is_not_offered(mp: milepost.Milepost) -> None:
    with pytest.raises(OSError), mp.run("r"):
        raise OSError
    (resumable,) = mp.resume()
    resumable.dismiss()
    assert mp.resume() == []
    assert mp.delete("r") >= 1
    assert mp.runs() == []


def test_files_are_restored_by_a_plan(project: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    mp = milepost.open()
    file, other = project / "a.txt", project / "b.txt"
    with mp.run("r") as run:
        file.write_text("one")
        other.write_text("one")
        run.snapshot("before", state={"n": 1})
        file.write_text("two")
        run.snapshot()
        plan = mp.restore_plan("r@1", current_run="r")
        assert [(f.path, f.action) for f in plan.files] == [("a.txt", "restore")]
        assert plan.changes == 1 and plan.reference == "r@1" and plan.run_id == "r"
        assert file.read_text() == "two"
        report = plan.apply()
        assert report.restored == ["a.txt"] and file.read_text() == "one"
        (point,) = mp.undo_points()
        assert point.id == report.id and point.files == 1
        mp.undo()
        assert file.read_text() == "two"
        mp.restore("r@1", paths=["a.txt"])
        assert file.read_text() == "one"
        stale = mp.restore_plan("r@2", current_run="r")
        file.write_text("three")
        run.snapshot()
        with pytest.raises(milepost.RestoreRefused) as raised:
            stale.apply()
        assert raised.value.reason == "restore_refused"
    assert mp.state("r@1") == {"n": 1}


def test_checkpoints_are_listed_marked_and_verified(mp: milepost.Milepost) -> None:
    with mp.run("r") as run:
        for n in range(3):
            run.save(f"number {n}", state={"n": n})
    listed = mp.list("r")
    assert len(listed) == 4 and listed[0].status == "completed" and not listed.damaged
    assert [c.sequence for c in listed] == [4, 3, 2, 1]
    assert len(mp.list(limit=2)) == 2
    assert mp.mark("r@1", pin=True, tags=["first"]) == (True, ("first",))
    assert mp.mark("r@1", pin=False, untag=["first"]) == (False, ())
    assert mp.list(tag="first").checkpoints == ()
    report = mp.verify()
    assert report.is_intact and report.checked == 4
    assert mp.verify("r").checked == 4
    assert mp.sync().checkpoints == 0
    assert mp.search("number", kinds=["summary"], run="r", limit=2).has_more
    since = datetime.now(timezone.utc) + timedelta(hours=1)
    assert mp.search("number", since=since).hits == []
    assert mp.search("numb", prefix_last=True).hits
