"""Names and values out of strangers' files are quoted in sentences and tables: none reaches the terminal raw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError, printable, quoted
from rmreader.data import download as downloads
from rmreader.data.download import File, fetch

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f"  # title, colour, C1's own escape, DEL
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONTEXT = "Ada wrote the first program."


def squad(folder: Path, name: str = "data.json", **row: Any) -> str:
    question = {"id": "q", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]} | row
    article = {"title": f"T{EVIL}", "paragraphs": [{"context": CONTEXT, "qas": [question]}]}
    (folder / name).write_text(json.dumps({"data": [article]}))
    return str(folder / name)


def text(folder: Path, content: str, name: str = "some.txt") -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def passage(folder: Path) -> str:
    return text(folder, CONTEXT, "passage.txt")


def train(folder: Path, recipe: str = "{}", *more: str, data: str = "") -> list[str]:
    data = data or squad(folder)
    return [
        "train",
        text(folder, recipe, "r.yaml"),
        *more,
        "--train",
        data,
        "--out",
        str(folder / "o"),
        "--device",
        "cpu",
    ]


WAYS: dict[str, Callable[[Path], list[str]]] = {
    "passage's name": lambda f: ["ask", "Who?", "-p", str(f / EVIL)],
    "passage's folder": lambda f: ["ask", "Who?", "-p", str(f)],
    "question": lambda f: ["ask", f"Who {EVIL}?", "-p", passage(f)],
    "answer": lambda f: ["ask", "Who wrote?", "-p", text(f, f"A{EVIL}da wrote{EVIL} the first program.")],
    "model's name": lambda f: ["ask", "Who?", "-p", passage(f), "--model", EVIL],
    "data's name": lambda f: ["data", "check", squad(f, f"d{EVIL}.json")],
    "no such data": lambda f: ["evaluate", str(f / f"{EVIL}.json"), "preds.json"],
    "id of a bad row": lambda f: ["data", "check", squad(f, id=f"q{EVIL}", question="")],
    "answer of a bad row": lambda f: ["data", "check", squad(f, answers=[{"text": EVIL, "answer_start": 0}])],
    "bad rows of evaluate": lambda f: ["evaluate", squad(f, id=EVIL, question=""), text(f, "{}", "p.json")],
    "bad rows of training": lambda f: train(f, data=squad(f, id=EVIL, question="")),
    "bad rows of predict": lambda f: ["predict", squad(f, id=EVIL, question=""), "-o", str(f / "o.json")],
    "columns": lambda f: ["predict", text(f, f"a{EVIL},b\n1,2\n", "d.csv"), "-o", str(f / "o.json")],
    "named column": lambda f: ["predict", text(f, "a\n", "d.csv"), "-o", str(f / "o.json"), "--id-column", EVIL],
    "id twice": lambda f: [
        "predict",
        text(f, f"id,question,passage\n{EVIL},Who?,Ada.\n{EVIL},Who?,Ada.\n", "d.csv"),
        "-o",
        str(f / f"{EVIL}.json"),
    ],
    "JSON line": lambda f: ["predict", text(f, f'{{"{EVIL}', "d.jsonl"), "-o", str(f / "o.json")],
    "format": lambda f: ["predict", text(f, "x"), "-o", str(f / "o.json"), "--format", EVIL],
    "id of a prediction": lambda f: ["evaluate", squad(f), text(f, json.dumps({EVIL: None}), "p.json")],
    "recipe's name": lambda f: ["train", str(f / EVIL), "--train", squad(f), "--out", str(f / "o")],
    "recipe's key": lambda f: train(f, json.dumps({"network": {EVIL: 1}})),
    "recipe's section": lambda f: train(f, json.dumps({EVIL: {}})),
    "recipe's value": lambda f: train(f, json.dumps({"network": {"fusion": EVIL}})),
    "recipe's text": lambda f: train(f, f"network: {EVIL}"),
    "override": lambda f: train(f, "{}", EVIL),
    "override's key": lambda f: train(f, "{}", f"network.{EVIL}=1"),
    "override's value": lambda f: train(f, "{}", f"network.blocks={EVIL}"),
    "vectors": lambda f: train(f, json.dumps({"inputs": {"vectors": EVIL}})),
    "line of GloVe": lambda f: train(
        f, json.dumps({"inputs": {"vectors": text(f, f"Ada 1 2\nAda{EVIL} 1\n", f"g{EVIL}.txt")}})
    ),
    "tags": lambda f: train(f, json.dumps({"inputs": {"tags": EVIL}})),
    "encoder": lambda f: train(f, json.dumps({"inputs": {"contextual": f"./{EVIL}"}})),
    "ELMo": lambda f: train(f, json.dumps({"inputs": {"contextual": f"elmo:{EVIL}"}})),
    "start": lambda f: train(f, json.dumps({"training": {"init": EVIL}})),
    "device": lambda f: [*train(f)[:-1], EVIL],
    "verb": lambda f: [EVIL],
    "option": lambda f: ["ask", f"--{EVIL}"],
    "option's value": lambda f: ["ask", "Who?", "-p", passage(f), "--top", EVIL],
    "data set": lambda f: ["data", "download", EVIL],
    "digest": lambda f: ["data", "download", "elmo", "--to", str(f), "--sha256", EVIL],
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_printed_commands_the_terminal(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    result = CliRunner().invoke(app, WAYS[way](tmp_path))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert not RAW.search(result.output), ascii(result.output)
    assert result.output


def test_a_cache_that_cannot_be_written_is_quoted_harmlessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmreader.data.encode import encode_file

    blocked = tmp_path / EVIL
    blocked.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="cannot be kept") as caught:
        encode_file(squad(tmp_path), blocked)
    assert not any(RAW.search(str(warning.message)) for warning in caught)


def test_what_a_server_says_is_quoted_harmlessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.error

    def say(*_: Any, **__: Any) -> None:
        raise urllib.error.HTTPError("http://x/", 404, f"No{EVIL}", {}, None)  # type: ignore[arg-type]

    monkeypatch.setattr(downloads.urllib.request, "urlopen", say)
    with pytest.raises(UserError, match="the server answered 404 No") as caught:
        fetch(File("data.bin", "http://x/", 3), tmp_path)
    assert not RAW.search(str(caught.value))


def test_sentences_are_one_line_and_values_are_short() -> None:
    assert str(UserError(f"a\nb\r\nc\u2028d{EVIL}")) == f"a b c d{printable(EVIL)}"
    assert len(printable(EVIL)) == len(EVIL)
    assert quoted("x" * 1000) == "'" + "x" * 78 + "…"
    assert quoted(1 << 100_000) == "a int too large to show"
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert quoted(deep) == "a list too large to show"
    while deep:  # an object this deep cannot be freed in one go, either
        deep = deep.pop()
