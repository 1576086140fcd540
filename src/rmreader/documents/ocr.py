"""Scans: PDF documents without text get it from ``ocrmypdf``, which has to be installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from rmreader.core.errors import UserError

PROGRAM = "ocrmypdf"
SECONDS = 900  # for one document: a page takes some seconds
_FAILED = "its text could not be recognised"


def check_program() -> None:
    """A sentence where the program is not there."""
    if shutil.which(PROGRAM) is None:
        raise UserError(
            f"--ocr: the program {PROGRAM} is not installed; install it (with tesseract), for "
            f"example: apt install {PROGRAM}, or brew install {PROGRAM}."
        )


def recognise(name: str, content: bytes, seconds: float = SECONDS) -> bytes:
    """A PDF document with the text of its pictures; pages that have text stay as they are."""
    with tempfile.TemporaryDirectory(prefix="rmreader-ocr-") as folder:
        scan = Path(folder, "scan.pdf")
        made = Path(folder, "made.pdf")
        scan.write_bytes(content)
        command = [PROGRAM, "--skip-text", "--output-type", "pdf", "--quiet", str(scan), str(made)]
        try:
            status, complaint = _run(command, seconds)
        except subprocess.TimeoutExpired:
            raise UserError(f"{name}: {_FAILED} in {seconds:g} s; split it.") from None
        except OSError as error:
            raise UserError(
                f"{name}: {_FAILED} ({PROGRAM}: {error.strerror}); check that it runs."
            ) from None
        if status != 0 or not made.exists():
            lines = complaint.decode("utf-8", "replace").split("\n")
            why = next((line.strip() for line in reversed(lines) if line.strip()), "no reason")
            raise UserError(f"{name}: {_FAILED} ({PROGRAM}: {why[:200]}); convert it by hand.")
        return made.read_bytes()


def _run(command: list[str], seconds: float) -> tuple[int, bytes]:
    """The status of a program and what it says on stderr; it ends with all that it started."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a group of processes, which can be ended together
    ) as process:
        try:
            _, complaint = process.communicate(timeout=seconds)
        except BaseException:  # it is late, or Ctrl-C, which a group of its own does not hear
            _end_group(process)
            raise
        return process.returncode, complaint


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children; on Windows, which has no groups, the process alone."""
    if hasattr(os, "killpg"):
        # All of them may have ended just now.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
