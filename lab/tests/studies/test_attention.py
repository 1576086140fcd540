"""Table 5 and the figures: divergences as loops give them, and the movement that reattention
alone made."""

from __future__ import annotations

import base64
import io
import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab_support.networks import open_network
from typer.testing import CliRunner

from lab.cli import app
from lab.cli.study import sample
from lab.results import read
from lab.studies import plots
from lab.studies.attention import movements, study_attention, study_figure
from lab.studies.divergences import divergences, pairs_of
from lab.studies.readers import load
from lab.studies.report import save
from rmreader.core.errors import UserError
from rmreader.data.encode import encode_file, encode_pairs
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.engines import EncoderInput
from rmreader.text.tokens import tokenize

CPU = torch.device("cpu")
PLAIN = "network.reattention=false"


@pytest.fixture(scope="module")
def with_(make_reader: Callable[..., Path]) -> list[str]:
    return [str(make_reader(seed)) for seed in (1, 2)]


def column(logits: np.ndarray, j: int) -> list[float]:
    exponents = [math.exp(x) for x in logits[:, j]]
    total = sum(exponents)
    return [x / total for x in exponents]


def kl(p: list[float], q: list[float]) -> float:
    total = 0.0
    for a, b in zip(
        p,
        q,
        strict=True,
    ):
        total += a * math.log(a / b)
    return total


def rounds_of(folder: str, question: str, passage: str) -> Any:
    """The network, and the rounds of one question read alone, without any padding."""
    encoded = encode_pairs([(question, passage)])
    network, feed, _ = open_network(
        folder,
        encoded,
        CPU,
    )
    ((_, batch),) = feed.batches([np.arange(1)])
    filled = feed.fill(batch)
    with torch.no_grad():
        rounds = network(filled, keep_attention=True).rounds
    return network, rounds, filled


def matrices(rounds: Any, name: str) -> list[np.ndarray]:
    """E or B of every round of one question."""
    return [getattr(both, name)[0].double().numpy() for both in rounds]


def redundancy_by_loops(first: np.ndarray, second: np.ndarray) -> float:
    """The divergence of one round's attention from the next one's, column by column."""
    count = first.shape[1]
    total = 0.0
    for j in range(count):
        total += kl(column(first, j), column(second, j))
    return total / count


def deficiency_by_loops(members: list[np.ndarray], own: int) -> float:
    """The divergence of the members' mean attention from one of them, column by column."""
    count = members[0].shape[1]
    total = 0.0
    for j in range(count):
        columns = [column(member, j) for member in members]
        mean = [sum(values) / len(members) for values in zip(*columns, strict=True)]
        total += kl(mean, columns[own])
    return total / count


def test_divergences_are_those_of_loops_over_one_question_at_a_time(
    tiny: Any, with_: list[str]
) -> None:
    encoded = encode_file(tiny.dev)
    readers = [open_folder(folder) for folder in with_]
    found = divergences(
        readers,
        pairs_of(tiny.dev),
        "cpu",
        batch_size=7,
    )
    assert list(found) == ["E1 to E2", "E2 to E3", "B1 to B2", "B2 to B3", "E2 to E2*", "E3 to E3*"]
    for values in found.values():
        assert values.shape == (2, len(encoded))
        assert values.mean() > 1e-3  # else nothing was compared

    order = np.argsort(encoded.context_lengths, kind="stable")  # as they are read
    for place in (0, len(encoded) - 1):
        i = int(order[place])
        question = encoded.question(i)
        passage = encoded.passage(i)
        both = [
            rounds_of(
                folder,
                question,
                passage,
            )[1]
            for folder in with_
        ]
        second_E = [matrices(rounds, "E")[1] for rounds in both]
        for r, rounds in enumerate(both):
            for name in "EB":
                X = matrices(rounds, name)
                for t in (0, 1):
                    expected = redundancy_by_loops(X[t], X[t + 1])
                    row = found[f"{name}{t + 1} to {name}{t + 2}"]
                    assert row[r, place] == pytest.approx(expected, abs=1e-5)
            expected = deficiency_by_loops(second_E, r)
            assert found["E2 to E2*"][r, place] == pytest.approx(expected, abs=1e-5)


def test_the_spread_is_over_questions_not_over_all_values(
    tiny: Any, with_: list[str], make_reader: Callable[..., Path]
) -> None:
    """Each question counts once, as the mean over the readers.

    Readers that differ must not widen the spread.
    """
    readers = [*with_, str(make_reader(11))]
    folders = [open_folder(folder) for folder in readers]
    values = divergences(
        folders,
        pairs_of(tiny.dev),
        "cpu",
    )
    kept = study_attention(
        tiny.dev,
        {"with": readers},
        "cpu",
    ).data["rows"]
    for name, each in values.items():
        row = kept[name]["with"]
        count = each.shape[1]
        questions = [sum(column.tolist()) / 3 for column in each.T]
        mean = sum(questions) / count
        squares = sum((value - mean) ** 2 for value in questions)
        deviation = math.sqrt(squares / count)
        assert row["mean"] == pytest.approx(mean, rel=1e-6)
        assert row["deviation"] == pytest.approx(deviation, rel=1e-6)
        by_reader = [sum(own.tolist()) / count for own in each]
        assert row["readers"] == pytest.approx(by_reader, rel=1e-6)
        assert each.std() > 1.05 * deviation  # the mistake would show


def test_the_spread_over_ensembles_is_that_of_their_means(
    tiny: Any, make_reader: Callable[..., Path], tmp_path: Path
) -> None:
    """Four readers as two ensembles of two: each is read alone, and its mean counts once."""
    readers = [str(make_reader(seed)) for seed in (21, 22, 23, 24)]
    keep = tmp_path / "kept.jsonl"
    both = study_attention(
        tiny.dev,
        {"with": readers},
        "cpu",
        keep_to=keep,
        ensembles=2,
    )
    first_line, second_line = read(keep)
    assert first_line["seeds"] == second_line["seeds"] == [1, 1]  # of their recipes
    listed = both.data["readers"]["with"]
    assert first_line["readers"] == listed[:2]
    assert second_line["readers"] == listed[2:]

    first = study_attention(
        tiny.dev,
        {"with": readers[0::2]},
        "cpu",
    ).data["rows"]
    second = study_attention(
        tiny.dev,
        {"with": readers[1::2]},
        "cpu",
    ).data["rows"]
    cells = {row[0]: row[2] for row in both.rows}
    for name, row in both.data["rows"].items():
        one = first[name]["with"]
        other = second[name]["with"]
        middle = (one["mean"] + other["mean"]) / 2
        # Of a sample of two.
        spread = abs(one["mean"] - other["mean"]) / math.sqrt(2)
        assert row["with"]["mean"] == pytest.approx(middle, rel=1e-6)
        assert row["with"]["ensembles"]["spread"] == pytest.approx(spread, rel=1e-6)
        # Over questions, as of each.
        deviation = (one["deviation"] + other["deviation"]) / 2
        assert row["with"]["deviation"] == pytest.approx(deviation, rel=1e-6)
        assert cells[name].endswith(f"(ensembles ± {spread:.3f})")


def test_the_table_has_both_lists_beside_the_papers(
    tiny: Any, with_: list[str], make_reader: Callable[..., Path]
) -> None:
    readers = {
        "without": [str(make_reader(5, PLAIN))],
        "with": with_,
    }
    report = study_attention(
        tiny.dev,
        readers,
        "cpu",
        limit=6,
    )
    assert report.data["questions"] == 6
    rows = {row[0]: row[1:] for row in report.rows}
    assert rows["E2 to E2*"][0] == "–"  # one reader has no ensemble to be compared with
    assert rows["B1 to B2"][2:] == ("0.976 ± 0.092", "1.207 ± 0.121")
    kept = report.data["rows"]["E1 to E2"]["with"]
    assert rows["E1 to E2"][1] == f"{kept['mean']:.3f} ± {kept['deviation']:.3f}"
    assert np.mean(kept["readers"]) == pytest.approx(kept["mean"])


def test_a_reader_in_the_wrong_list_is_refused(tiny: Any, with_: list[str]) -> None:
    with pytest.raises(UserError, match="without reattention, but its recipe says otherwise"):
        study_attention(
            tiny.dev,
            {"without": with_},
            "cpu",
        )
    done = CliRunner().invoke(app, ["study", "attention", "--data", str(tiny.dev)])
    assert done.exit_code == 2


def test_data_without_questions_are_one_sentence(with_: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    without_a_word = {
        "id": "1",
        "question": " ",
        "answers": [],
    }
    paragraph = {"context": "A text.", "qas": [without_a_word]}
    article = {"title": "t", "paragraphs": [paragraph]}
    empty.write_text(json.dumps({"data": [article]}))
    words = ["study", "attention", "--data", str(empty), "--with", with_[0], "--device", "cpu"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "empty.json: has no questions" in done.stderr


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("diagonal", ["zero", "mask", "none"])
def test_what_reattention_moved_is_what_goes_when_it_is_taken_away(
    make_reader: Callable[..., Path], diagonal: str, device: str | None
) -> None:
    folder = str(make_reader(7, f"network.diagonal={diagonal}"))
    question = "Who made a bridge?"
    passage = "In Oslo, Ada made a bridge. It was red."
    network, _, batch = rounds_of(
        folder,
        question,
        passage,
    )
    pair = EncoderInput(
        question,
        passage,
        tokenize(question).words,
        tokenize(passage).words,
    )
    shown = movements(load(folder, device), pair)
    assert shown[0][0].change is None
    for t in (1, 2):
        for name, part in zip(
            "EB",
            shown[t],
            strict=True,
        ):
            gamma = getattr(network.aligner.blocks[t], f"gamma_{name}")
            kept = gamma.data.clone()
            gamma.data.zero_()
            with torch.no_grad():
                without = network(batch, keep_attention=True).rounds[t]
            gamma.data.copy_(kept)
            logits = getattr(without, name)[0]
            plain = torch.softmax(logits, dim=0).numpy()
            assert part.change is not None
            np.testing.assert_allclose(
                part.attention - part.change,
                plain,
                # The other engine rounds otherwise on the way here.
                atol=1e-5 if device else 1e-4,
            )
            np.testing.assert_allclose(
                part.attention.sum(0),
                1,
                atol=1e-5,
            )
            np.testing.assert_allclose(
                part.change.sum(0),
                0,
                atol=1e-5,
            )
            assert np.abs(part.change).max() > 1e-3


def test_the_page_and_its_drawings_are_whole_and_safe(with_: list[str], tmp_path: Path) -> None:
    passage = 'In <script>alert("1")</script> & Oslo, Ada made a bridge.'
    report = study_figure(
        "Who made <b>a bridge</b>?",
        passage,
        with_[0],
        "cpu",
    )
    files = save(report, tmp_path)[2:]
    assert len(files) == 1 + 2 * (1 + 3 + 3)
    page = files[0].read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>a bridge" not in page
    assert "&lt;" in page
    # Nothing comes from outside.
    own = page.replace("http://www.w3.org/2000/svg", "")
    assert "http" not in own.replace("http-equiv", "")
    for path in files[1:]:
        ElementTree.parse(path)
    assert {row[0] for row in report.rows} == {"E2", "E3"}
    assert report.data["answer"] in passage


def test_cells_have_the_right_colours_and_any_words_are_shown() -> None:
    from matplotlib import image

    values = np.array(
        [
            [0.0, 0.5, 1.0],
            [-1.0, 0.0, 1.0],
        ]
    )
    drawn = plots.heatmap(
        values,
        ["a", "<"],
        ["x", "$y_", "\x00\ud800漢"],
        "t & u",
        signed=True,
    )
    drawing = ElementTree.fromstring(drawn)
    (cells,) = drawing.iter("{http://www.w3.org/2000/svg}image")
    source = cells.attrib["{http://www.w3.org/1999/xlink}href"].partition("base64,")[2]
    shares = image.imread(io.BytesIO(base64.b64decode(source)))[..., :3]
    pixels = (shares * 255).round().astype(int)
    if "scale(1 -1)" in cells.attrib.get("transform", ""):  # upside down
        pixels = pixels[::-1]
    assert pixels.shape == (2, 3, 3)
    for i, j in np.ndindex(2, 3):
        red, _, blue = pixels[i, j]
        assert np.sign(blue - red) == np.sign(values[i, j])  # red is less, blue is more
        assert (min(pixels[i, j]) > 240) == (values[i, j] == 0)
    words = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["x", "$y_", "\ufffd\ufffd漢", "a", "<", "t & u (the darkest is 1)"]


def test_the_figure_command_takes_a_sample_or_a_question_with_its_passage(
    with_: list[str], make_reader: Callable[..., Path], tmp_path: Path
) -> None:
    question, passage = sample()
    # Every block is drawn, word by word of a whole passage.
    model = str(make_reader(1, "network.blocks=2"))
    words = ["study", "figure", "--model", model, "--out", str(tmp_path), "--device", "cpu"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["question"] == question
    assert about["answer"] in passage
    assert CliRunner().invoke(app, [*words, "--question", "Who?"]).exit_code == 2
    done = CliRunner().invoke(app, [*words, "--model", ",".join(with_)])
    assert done.exit_code == 1
    assert "give one reader" in done.stderr

    picture = tmp_path / "picture.txt"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    words += ["--question", "Who?", "--passage", str(picture)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "picture.txt: this is a PNG image, not plain text" in done.stderr
