"""An orchestrator that dies in the middle. Start it again: it continues where it stopped.

    python orchestrator.py crash    # exits with 1 after the second task
    python orchestrator.py
"""

from __future__ import annotations

import sys
import time

import milepost

TASKS = ["fetch", "parse", "build", "test"]


def main() -> int:
    crashes = "crash" in sys.argv[1:]
    mp = milepost.open()
    with mp.run("orchestrator", title="A build in four tasks") as run:
        print("continues" if run.rejoined else "starts", run.id)
        state: dict[str, list[str]] = run.state or {"results": []}
        # A task that takes long loses at most 30 seconds of `state`.
        with run.autosave(30) as auto:
            for name in TASKS:
                if run.is_done(name):
                    print(f"{name}: done before")
                    continue
                with run.task(name) as task:
                    state["results"].append(work(name))
                    auto.put(state)
                    task.complete(state)
                    print(f"{name}: done now")
                if crashes and name == "parse":
                    raise RuntimeError("the disk of the build machine is full")
        run.decide("Ship it: all four tasks passed")
    print("results:", ", ".join(state["results"]))
    return 0


def work(name: str) -> str:
    time.sleep(0.01)
    return f"{name}-result"


if __name__ == "__main__":
    sys.exit(main())
