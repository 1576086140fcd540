"""What ships answers questions, says what it is, and stays small."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rmreader.readers.folder import MANIFEST, SHIPPED, open_folder
from rmreader.reading.reader import Reader

READERS = sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))
PASSAGE = Path(__file__).resolve().parents[2] / "examples" / "passage.txt"
QUESTIONS = {
    "Who designed the lighthouse?": "Ingrid Halvorsen",
    "When was the lamp first lit?": "3 October 1871",
    "Why was the tower moved?": "the sea had begun to undermine the cliff",
}


def test_both_are_there() -> None:
    assert READERS == ["base", "small"]


@pytest.mark.parametrize("name", READERS)
def test_a_shipped_reader_answers_what_the_readme_asks(name: str) -> None:
    if name == "base":
        pytest.importorskip("tokenizers", reason="tokenizers is absent")
    reader, passage = Reader.load(name), PASSAGE.read_text(encoding="utf-8")
    for question, expected in QUESTIONS.items():
        (given,), (granted,) = reader.ask(question, passage), reader.ask(question, passage, always=True)
        assert given.text == granted.text == expected
        assert granted.confidence > 0.8
        assert given.confidence > 0.7  # which counts the chance that there is none


@pytest.mark.parametrize("name", READERS)
def test_a_shipped_reader_says_what_the_passage_does_not_say(name: str) -> None:
    if name == "base":
        pytest.importorskip("tokenizers", reason="tokenizers is absent")
    reader, passage = Reader.load(name), PASSAGE.read_text(encoding="utf-8")
    for question in ("Who paid for the museum?", "How many people died?", "Can I take it while pregnant?"):
        answers = reader.ask(question, passage)
        assert not answers, question
        assert answers.none is not None
        assert answers.none > 0.5
        assert answers.guess is not None
        assert reader.ask(question, passage, always=True)[0].text == answers.guess.text


@pytest.mark.parametrize("name", READERS)
def test_a_shipped_reader_is_whole_and_says_where_it_comes_from(name: str) -> None:
    folder = open_folder(name)
    origin = folder.about["provenance"]
    assert {"commit", "recipe"} <= set(origin)
    for one in (origin, *(member["provenance"] for member in origin.get("average_of", ()))):
        assert {"trained_on_sha256", "average_of"} & set(one)
    assert folder.temperature != 1.0
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    assert "SQuAD 1.1 dev" in card
    everything = "".join(path.read_text("utf-8") for path in folder.path.glob("*.y*ml")) + card
    assert "/root" not in everything
    assert "/work" not in everything


@pytest.mark.parametrize("name", READERS)
def test_the_head_of_a_card_says_what_the_manifest_says(name: str) -> None:
    folder = open_folder(name)
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    known = yaml.safe_load(card.split("---\n")[1])
    assert known["license"] == "cc-by-sa-4.0"
    assert (known["library_name"], known["pipeline_tag"]) == ("rmreader", "question-answering")
    (index,) = known["model-index"]
    assert index["name"] == name
    assert {one["dataset"]["name"] for one in index["results"]} == set(folder.about["scores"])
    for result in index["results"]:
        score = folder.about["scores"][result["dataset"]["name"]]
        values = {metric["type"]: metric["value"] for metric in result["metrics"]}
        assert values == {key: round(score[key], 2) for key in ("exact_match", "f1")}


@pytest.mark.parametrize("name", READERS)
def test_the_hub_s_own_library_reads_the_head(name: str) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is absent")
    card = hub.ModelCard.load(SHIPPED / name / "README.md")
    assert card.data.license == "cc-by-sa-4.0"
    assert card.data.model_name == name
    found = {(one.dataset_type, one.metric_type): one.metric_value for one in card.data.eval_results}
    score = open_folder(name).about["scores"]["SQuAD 1.1 dev"]
    assert found["rajpurkar/squad", "f1"] == round(score["f1"], 2)


def test_everything_that_ships_is_small() -> None:
    # The tags pipeline is in a checkout alone, not in the wheel.
    sizes = [
        path.stat().st_size
        for path in SHIPPED.rglob("*")
        if path.is_file() and not path.is_relative_to(SHIPPED / "tags")
    ]
    assert sum(sizes) < 62e6
