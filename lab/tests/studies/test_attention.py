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
    return [x / sum(exponents) for x in exponents]


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def rounds_of(folder: str, question: str, passage: str) -> Any:
    """The rounds of one question read alone, without any padding."""
    network, feed, _ = open_network(folder, encode_pairs([(question, passage)]), CPU)
    ((_, batch),) = feed.batches([np.arange(1)])
    with torch.no_grad():
        return network, network(feed.fill(batch), keep_attention=True).rounds, feed.fill(batch)


def test_divergences_are_those_of_loops_over_one_question_at_a_time(
    tiny: Any, with_: list[str]
) -> None:
    encoded = encode_file(tiny.dev)
    found = divergences(
        [open_folder(folder) for folder in with_], pairs_of(tiny.dev), "cpu", batch_size=7
    )
    assert list(found) == ["E1 to E2", "E2 to E3", "B1 to B2", "B2 to B3", "E2 to E2*", "E3 to E3*"]
    assert all(values.shape == (2, len(encoded)) for values in found.values())
    order = np.argsort(encoded.context_lengths, kind="stable")  # as they are read
    for place in (0, len(encoded) - 1):
        i = int(order[place])
        both = [rounds_of(folder, encoded.question(i), encoded.passage(i))[1] for folder in with_]
        m = int(encoded.context_lengths[i])
        for r, rounds in enumerate(both):
            E, B = ([getattr(one, name)[0].double().numpy() for one in rounds] for name in "EB")
            for t in (0, 1):
                for name, X in (("E", E), ("B", B)):
                    loops = sum(kl(column(X[t], j), column(X[t + 1], j)) for j in range(m)) / m
                    assert found[f"{name}{t + 1} to {name}{t + 2}"][r, place] == pytest.approx(
                        loops, abs=1e-5
                    )
            loops = 0.0
            for j in range(m):
                each = [column(rounds[1].E[0].double().numpy(), j) for rounds in both]
                mean = [sum(values) / 2 for values in zip(*each, strict=True)]
                loops += kl(mean, each[r]) / m
            assert found["E2 to E2*"][r, place] == pytest.approx(loops, abs=1e-5)
    assert all(values.mean() > 1e-3 for values in found.values())  # else nothing was compared


def test_the_spread_is_over_questions_not_over_all_values(
    tiny: Any, with_: list[str], make_reader: Callable[..., Path]
) -> None:
    """Each question counts once, as the mean over the readers: readers that differ must not
    widen the spread."""
    encoded = encode_file(tiny.dev)
    readers = [*with_, str(make_reader(11))]
    values = divergences([open_folder(folder) for folder in readers], pairs_of(tiny.dev), "cpu")
    kept = study_attention(tiny.dev, {"with": readers}, "cpu").data["rows"]
    for name, each in values.items():
        questions = [sum(float(each[r, q]) for r in range(3)) / 3 for q in range(len(encoded))]
        mean = sum(questions) / len(questions)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in questions) / len(questions))
        assert kept[name]["with"]["mean"] == pytest.approx(mean, rel=1e-6)
        assert kept[name]["with"]["deviation"] == pytest.approx(deviation, rel=1e-6)
        by_reader = [sum(each[r].tolist()) / len(questions) for r in range(3)]
        assert kept[name]["with"]["readers"] == pytest.approx(by_reader, rel=1e-6)
        assert each.std() > 1.05 * deviation  # the mistake would show


def test_the_spread_over_ensembles_is_that_of_their_means(
    tiny: Any, make_reader: Callable[..., Path], tmp_path: Path
) -> None:
    """Four readers as two ensembles of two: each is read alone, and its mean counts once."""
    readers = [str(make_reader(seed)) for seed in (21, 22, 23, 24)]
    keep = tmp_path / "kept.jsonl"
    both = study_attention(tiny.dev, {"with": readers}, "cpu", keep_to=keep, ensembles=2)
    assert [line["seeds"] for line in read(keep)] == [[1, 1], [1, 1]]  # of their recipes
    assert [line["readers"] for line in read(keep)] == [
        both.data["readers"]["with"][k : k + 2] for k in (0, 2)
    ]
    alone = [study_attention(tiny.dev, {"with": readers[k::2]}, "cpu").data["rows"] for k in (0, 1)]
    for name, row in both.data["rows"].items():
        means = [rows[name]["with"]["mean"] for rows in alone]
        middle = sum(means) / 2
        spread = math.sqrt(sum((mean - middle) ** 2 for mean in means))  # of a sample of two
        assert row["with"]["mean"] == pytest.approx(middle, rel=1e-6)
        assert row["with"]["ensembles"]["spread"] == pytest.approx(spread, rel=1e-6)
        over = [rows[name]["with"]["deviation"] for rows in alone]
        assert row["with"]["deviation"] == pytest.approx(
            sum(over) / 2, rel=1e-6
        )  # over questions, as of each
        cell = next(cells[2] for cells in both.rows if cells[0] == name)
        assert cell.endswith(f"(ensembles ± {spread:.3f})")


def test_the_table_has_both_lists_beside_the_papers(
    tiny: Any, with_: list[str], make_reader: Callable[..., Path]
) -> None:
    report = study_attention(
        tiny.dev, {"without": [str(make_reader(5, PLAIN))], "with": with_}, "cpu", limit=6
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
        study_attention(tiny.dev, {"without": with_}, "cpu")
    done = CliRunner().invoke(app, ["study", "attention", "--data", str(tiny.dev)])
    assert done.exit_code == 2


def test_data_without_questions_are_one_sentence(with_: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    row = {"id": "1", "question": " ", "answers": []}  # a question without a word
    empty.write_text(
        json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "A text.", "qas": [row]}]}]})
    )
    done = CliRunner().invoke(
        app, ["study", "attention", "--data", str(empty), "--with", with_[0], "--device", "cpu"]
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert "empty.json: has no questions" in done.stderr


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("diagonal", ["zero", "mask", "none"])
def test_what_reattention_moved_is_what_goes_when_it_is_taken_away(
    make_reader: Callable[..., Path], diagonal: str, device: str | None
) -> None:
    folder = str(make_reader(7, f"network.diagonal={diagonal}"))
    question, passage = "Who made a bridge?", "In Oslo, Ada made a bridge. It was red."
    network, _, batch = rounds_of(folder, question, passage)
    pair = EncoderInput(question, passage, tokenize(question).words, tokenize(passage).words)
    shown = movements(load(folder, device), pair)
    assert shown[0][0].change is None
    for t in (1, 2):
        for name, other in (("E", "gamma_E"), ("B", "gamma_B")):
            gamma = getattr(network.aligner.blocks[t], other)
            kept = gamma.data.clone()
            gamma.data.zero_()
            with torch.no_grad():
                without = network(batch, keep_attention=True).rounds[t]
            gamma.data.copy_(kept)
            part = shown[t]["EB".index(name)]
            assert part.change is not None
            plain = torch.softmax(getattr(without, name)[0], dim=0).numpy()
            # the other engine rounds otherwise on the way here
            np.testing.assert_allclose(
                part.attention - part.change, plain, atol=1e-5 if device else 1e-4
            )
            np.testing.assert_allclose(part.attention.sum(0), 1, atol=1e-5)
            np.testing.assert_allclose(part.change.sum(0), 0, atol=1e-5)
            assert np.abs(part.change).max() > 1e-3


def test_the_page_and_its_drawings_are_whole_and_safe(with_: list[str], tmp_path: Path) -> None:
    passage = 'In <script>alert("1")</script> & Oslo, Ada made a bridge.'
    report = study_figure("Who made <b>a bridge</b>?", passage, with_[0], "cpu")
    files = save(report, tmp_path)[2:]
    assert len(files) == 1 + 2 * (1 + 3 + 3)
    page = files[0].read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>a bridge" not in page
    assert "&lt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    )  # nothing from outside
    for path in files[1:]:
        ElementTree.parse(path)
    assert {row[0] for row in report.rows} == {"E2", "E3"}
    assert report.data["answer"] in passage


def test_cells_have_the_right_colours_and_any_words_are_shown() -> None:
    from matplotlib import image

    values = np.array([[0.0, 0.5, 1.0], [-1.0, 0.0, 1.0]])
    drawing = ElementTree.fromstring(
        plots.heatmap(values, ["a", "<"], ["x", "$y_", "\x00\ud800漢"], "t & u", signed=True)
    )
    (cells,) = drawing.iter("{http://www.w3.org/2000/svg}image")
    source = cells.attrib["{http://www.w3.org/1999/xlink}href"].partition("base64,")[2]
    pixels = (image.imread(io.BytesIO(base64.b64decode(source)))[..., :3] * 255).round().astype(int)
    pixels = pixels if cells.attrib.get("transform", "").find("scale(1 -1)") < 0 else pixels[::-1]
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
    model = str(
        make_reader(1, "network.blocks=2")
    )  # every block is drawn, word by word of a whole passage
    words = ["study", "figure", "--model", model, "--out", str(tmp_path), "--device", "cpu"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["question"] == question
    assert json.loads(done.stdout)["answer"] in passage
    assert CliRunner().invoke(app, [*words, "--question", "Who?"]).exit_code == 2
    done = CliRunner().invoke(app, [*words, "--model", ",".join(with_)])
    assert (done.exit_code, "give one reader" in done.stderr) == (1, True)
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    done = CliRunner().invoke(
        app, [*words, "--question", "Who?", "--passage", str(tmp_path / "picture.txt")]
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert "picture.txt: this is a PNG image, not plain text" in done.stderr
