"""The Python examples of the documentation, with their output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", ["docs/python.md", "docs/langgraph.md", "README.md", "crates/milepost-py/README.md"])
def test_the_examples_of_a_page_print_what_it_says(page: str) -> None:
    if "langgraph" in page:
        pytest.importorskip("langgraph")
    subprocess.run(["git", "init", "-q"], check=True)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks, f"{page} has no examples"
    # The blocks of a page are one program, which prints a line between them.
    mark = "---- next block"
    source = f"\nprint({mark!r})\n".join(code for code, _ in blocks)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.split(mark + "\n")
    for (code, expected), actual in zip(blocks, printed):
        assert actual == expected, f"{page}:\n{code}"
    assert len(printed) == len(blocks)
