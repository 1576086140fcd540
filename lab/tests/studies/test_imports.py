"""The studies run where only torch and NumPy are: none of the extras is needed to start one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lab.studies

BLOCKED = (
    "spacy",
    "pydantic",
    "fastapi",
    "matplotlib",
    "transformers",
    "h5py",
    "onnx",
    "pyarrow",
)


def test_every_study_can_be_imported_without_the_extras() -> None:
    (folder,) = lab.studies.__path__
    modules = [
        f"lab.studies.{path.stem}" for path in Path(folder).glob("*.py") if path.stem != "__init__"
    ]
    assert len(modules) > 8
    lines = ["import sys, importlib", f"sys.modules.update(dict.fromkeys({BLOCKED!r}))"]
    lines += [f"importlib.import_module({name!r})" for name in [*modules, "rmreader.cli"]]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
