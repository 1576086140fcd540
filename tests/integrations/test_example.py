"""The notebook in examples/ runs from top to bottom and shows what it says.

Its cells are run by the plain interpreter, so that `make test` needs no Jupyter (a kernel, sockets, forty packages);
where nbclient is installed, as by `.ci/plugs`, it runs in a real kernel too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "first-hour.ipynb"
RUN = """
import ast, json, sys
space = {}
for number, source in enumerate(json.load(sys.stdin)):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), space)
    if last is not None:  # as a notebook shows it
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
        if value is not None:
            print(value._repr_html_() if hasattr(value, "_repr_html_") else value)
"""


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in (("PYTHONPATH", ROOT / "src"), ("RMREADER_CACHE", tmp_path), ("TMPDIR", tmp_path)):
        monkeypatch.setenv(name, str(value))
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def check(shown: str) -> None:
    assert "Ingrid Halvorsen</mark>" in shown
    assert "not in this passage" in shown
    assert shown.count("<summary>round ") == 3
    assert "the sea had begun to undermine the cliff" in shown
    assert "held-out examples: exact match" in shown
    assert "Captain Mei" in shown


@pytest.mark.slow
def test_every_cell_runs_in_the_plain_interpreter(notebook: Any) -> None:
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "keep it without outputs: clear them"
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_cell_runs_in_a_real_kernel(notebook: Any) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    whole = nbformat.reads(json.dumps(notebook), as_version=4)
    nbclient.NotebookClient(whole, timeout=600, kernel_name="python3").execute()
    outputs = [output for cell in whole.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}).get("text/html", output.get("text", "")) for output in outputs]
    assert all(output["output_type"] != "error" for output in outputs)
    check("\n".join(shown))
