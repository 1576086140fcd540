"""Reading needs neither torch nor anything else that training needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

HEAVY = {"torch", "onnx", "transformers", "spacy", "h5py", "matplotlib", "scipy", "pandas", "pyarrow", "ray", "pyspark"}


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ask_on_the_command_line_never_imports_torch(folder: Path, tmp_path: Path) -> None:
    passage = tmp_path / "passage.txt"
    passage.write_text("The letter was written by Ada Lovelace.", encoding="utf-8")
    script = """
        import json, sys
        from rmreader.cli import main
        sys.argv = ["rmreader", "ask", "Who wrote it?", "--passage", sys.argv[1], "--model", sys.argv[2], "--json"]
        try:
            main()
        except SystemExit as left:
            assert not left.code, left.code
        print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
        assert "rmreader.predict" not in sys.modules
    """
    answer, modules = run(script, str(passage), str(folder)).splitlines()
    assert json.loads(answer)["answers"][0]["text"]
    assert not HEAVY & set(json.loads(modules))


def test_the_base_install_needs_seven_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in project["dependencies"]}
    assert needed == {"numpy", "onnxruntime", "pypdfium2", "PyYAML", "rich", "safetensors", "typer"}


def test_everything_a_reader_does_works_where_torch_cannot_be_imported(folder: Path) -> None:
    script = """
        import sys
        sys.modules["torch"] = None  # any import of it fails
        from rmreader import Reader, UserError
        reader = Reader.load(sys.argv[1])
        assert reader.ask("Who?", "Ada. " * 300, top=2)
        assert list(reader.ask_many([("Who?", "Ada wrote it.")] * 5))
        assert reader.explain("Who?", "Ada wrote it.").rounds
        import rmreader.cli.chat, rmreader.predict.predict, rmreader.reading.export
        import rmreader.reading.ensemble
        try:
            Reader.load(sys.argv[1], engine="torch")
        except UserError as error:
            print(error)
    """
    assert "torch" in run(script, str(folder))


def test_a_shipped_reader_is_exported_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    script = """
        import sys
        sys.modules["torch"] = None
        sys.argv = ["rmreader", "export", "small", "small", "-o", sys.argv[1]]
        from rmreader.cli import main
        try:
            main()
        except SystemExit as left:
            assert not left.code, left.code
    """
    run(script, str(tmp_path / "made"))
    assert (tmp_path / "made").exists()


def test_importing_the_package_costs_nothing() -> None:
    script = """
        import sys
        import rmreader
        assert not {"numpy", "onnxruntime", "yaml", "rich", "typer"} & set(sys.modules)
        assert rmreader.Reader and rmreader.Answer and rmreader.UserError and rmreader.__version__
        try:
            rmreader.nonsense
        except AttributeError as error:
            print(error)
    """
    assert "nonsense" in run(script)
