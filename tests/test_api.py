"""The public face: what ``import rmreader`` offers, its types and its page."""

from __future__ import annotations

import doctest
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rmreader
from rmreader.core.errors import UserError
from rmreader.readers.folder import find

ROOT = Path(__file__).resolve().parents[1]
PASSAGE = "The letter was written by Ada Lovelace in London. It was sent to Charles Babbage in 1843."
QUESTIONS = {"a": ("Who wrote the letter?", "Ada Lovelace"), "b": ("When was it sent?", "1843")}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {"id": id, "question": question, "answers": [{"text": answer, "answer_start": PASSAGE.index(answer)}]}
        for id, (question, answer) in QUESTIONS.items()
    ]
    articles = [{"title": str(k), "paragraphs": [{"context": PASSAGE, "qas": rows}]} for k in range(1)]
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def build_api() -> Any:
    spec = importlib.util.spec_from_file_location("build_api", ROOT / "scripts" / "build_api.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_public_call_has_an_example_that_is_right(
    build_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(rmreader, name) for name in rmreader.__all__}
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    calls = dict(build_api.calls())
    assert len(calls) > 20
    for name, function in calls.items():
        (test,) = finder.find(function, name, module=False, globs=dict(names))
        assert test.examples, f"{name} has no example"
        assert runner.run(test).failed == 0, name
    for name in ("Reader", "Shelf"):
        (test,) = finder.find(names[name], name, module=False, globs=dict(names))
        assert test.examples
        assert runner.run(test).failed == 0, name


def test_the_page_is_what_the_docstrings_say(build_api: Any) -> None:
    module = build_api
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python scripts/build_api.py"


def test_every_public_name_is_there_and_documented() -> None:
    for name in rmreader.__all__:
        assert getattr(rmreader, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rmreader.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("numpy", "torch", "onnxruntime", "yaml", "typer", "rich")
    code = f"import sys, rmreader; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_strictly_typed_program_sees_the_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import rmreader\n"
        "reader = rmreader.Reader.load('small')\n"
        "reveal_type(reader.ask('Who?', 'Ada.'))\n"
        "reveal_type(rmreader.train('tiny', train='a.json', out='b').best)\n"
        "reveal_type(rmreader.evaluate(reader, 'a.json').f1)\n"
        "reveal_type(rmreader.Ensemble.of(['small', 'base']))\n"
        "rmreader.train('tiny', train=3, out='b')\n"
    )
    words = ["--strict", "--cache-dir", str(ROOT / ".mypy_cache"), "--config-file", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *words, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    notes = [line.split("Revealed type is ")[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    expected = ["rmreader.reading.answers.Answers", "Path", "float"]
    for note, wanted in zip(notes, [*expected, "rmreader.reading.ensemble.Ensemble"], strict=True):
        assert wanted in note
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert 'Argument "train" to "train" has incompatible type "int"' in errors[0]


def test_a_reader_is_evaluated_by_name_by_folder_or_loaded(data: Path) -> None:
    by_name = rmreader.evaluate("small", data)
    assert (by_name.total, by_name.missing) == (2, 0)
    assert by_name.f1 > 50
    assert rmreader.evaluate(find("small"), str(data)) == by_name
    assert rmreader.evaluate(rmreader.Reader.load("small"), data) == by_name
    assert rmreader.evaluate("small", data, min_confidence=1.0).f1 == 0
    with pytest.raises(UserError, match="no such reader"):
        rmreader.evaluate("smal", data)


def test_a_reader_is_trained_by_a_recipe_s_name_and_settings(data: Path, tmp_path: Path) -> None:
    changed = {
        "training.epochs": 1,
        "training.holdout": 0.0,
        "training.schedule": "anneal",
        "training.betas": [0.8, 0.99],
        "network.hidden": 6,
        "inputs.vectors": "",
        "inputs.character_size": 4,
    }
    result = rmreader.train("tiny", train=data, dev=str(data), out=tmp_path / "run", settings=changed, device="cpu")
    assert result.finished
    assert result.dev is not None
    assert result.dev.total == 2
    recipe = (result.best / "recipe.yaml").read_text()
    assert "hidden: 6" in recipe
    assert "vectors: ''" in recipe
    assert rmreader.Reader.load(result.best).ask("Who wrote it?", PASSAGE)
    with pytest.raises(UserError, match="unknown key 'epoch'; the nearest is 'epochs'"):
        rmreader.train("tiny", train=data, out=tmp_path / "else", settings={"training.epoch": 1})
    with pytest.raises(UserError, match="tine: no such recipe; there are base"):
        rmreader.train("tine", train=data, out=tmp_path / "else")
