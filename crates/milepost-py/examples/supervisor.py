"""Continues what other programs left behind, and shows what they were doing."""

from __future__ import annotations

import milepost


def main() -> None:
    mp = milepost.open()
    interrupted = mp.resume()
    print(f"{len(interrupted)} interrupted")
    for found in interrupted:
        print(f"{found.run_id}: {found.why} ({found.detail})")
        # What a person or an agent needs to go on, in at most 500 tokens.
        brief = found.brief(budget=500)
        try:
            with found.start() as run:
                run.prompt(f"Continue this work:\n{brief}")
                print(f"continued with {len(run.tasks())} tasks")
        except milepost.NotResumable as error:
            print(f"not continued: {error.reason}")
    for hit in mp.search("disk full").hits:
        print(f"{hit.kind}: {hit.excerpt}")


if __name__ == "__main__":
    main()
