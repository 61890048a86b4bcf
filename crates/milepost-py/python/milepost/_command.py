"""Finds the program `milepost` that the package installs, and replaces this process by it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

NAME = "milepost.exe" if os.name == "nt" else "milepost"


def find_program() -> Path:
    """The path of the program that was installed with this package."""
    candidates: list[Path] = []
    schemes = [None, "nt_user" if os.name == "nt" else "posix_user"]
    for scheme in schemes:
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        candidates.append(Path(folder) / NAME)
    # Installed with `pip install --target` or `--prefix`.
    package = Path(__file__).resolve().parent
    candidates.append(package.parent / "bin" / NAME)
    candidates.extend(parent / "bin" / NAME for parent in list(package.parents)[2:5])
    for path in candidates:
        # A script of the same name would start this module again.
        if path.is_file() and not _is_script(path):
            return path
    looked = ", ".join(str(path.parent) for path in candidates[:3])
    raise FileNotFoundError(f"the program {NAME} is not installed with the package; looked in {looked}")


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def main() -> int:
    """Run the program with the arguments of this process. On POSIX it replaces this process."""
    try:
        program = find_program()
    except FileNotFoundError as error:
        print(f"milepost: {error}", file=sys.stderr)
        return 127
    arguments = [str(program), *sys.argv[1:]]
    if os.name == "posix":
        import signal

        # Python ignores these signals, and programs inherit that.
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execv(program, arguments)
    return subprocess.call(arguments)
