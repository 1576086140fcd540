"""The component in Haystack's own pipeline; skipped, saying so, where Haystack is not installed (see `.ci/plugs`)."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
haystack = pytest.importorskip("haystack", reason="haystack-ai is not installed")

from rmreader.integrations.haystack import ExtractiveReader  # noqa: E402
from rmreader.reading.reader import Reader  # noqa: E402

LETTER = "It was raining. The letter was written by Ada Lovelace in 1843. It was raining."
VALVE = "The valve was built in Turin by a company that made clocks."


def documents() -> list[Any]:
    return [haystack.Document(content=text, meta={"file": name}) for name, text in (("a", LETTER), ("b", VALVE))]


def run(query: str, component: ExtractiveReader | None = None, **inputs: Any) -> list[Any]:
    pipeline = haystack.Pipeline()
    pipeline.add_component("reader", component or ExtractiveReader(model="small"))
    inputs = {"query": query, "documents": documents(), **inputs}
    return list(pipeline.run({"reader": inputs})["reader"]["answers"])


def test_haystack_s_pipeline_finds_the_answer_with_its_document_and_places() -> None:
    best, *rest = run("Who wrote the letter?")
    expected = Reader.load("small").ask("Who wrote the letter?", LETTER)[0]
    assert isinstance(best, haystack.ExtractedAnswer)
    assert (best.data, best.query, best.score) == ("Ada Lovelace", "Who wrote the letter?", expected.confidence)
    assert best.document.meta == best.meta == {"file": "a"}
    assert LETTER[best.document_offset.start : best.document_offset.end] == "Ada Lovelace"
    assert best.context == "The letter was written by Ada Lovelace in 1843."
    assert best.context[best.context_offset.start : best.context_offset.end] == "Ada Lovelace"
    assert [answer.score for answer in [best, *rest]] == sorted((a.score for a in [best, *rest]), reverse=True)
    (none,) = (answer for answer in rest if answer.data is None)
    assert none.document is None
    assert 0 <= none.score < 0.5
    assert best.to_dict()["data"] == "Ada Lovelace"


def test_what_no_document_says_is_said_to_be_not_there() -> None:
    best = run("How tall is the mountain on the moon?")[0]
    assert best.data is None
    assert best.score > 0.5
    assert all(answer.data is not None for answer in run("Who?", ExtractiveReader(no_answer=False)))


def test_limits_hold_and_can_be_changed_for_one_run() -> None:
    component = ExtractiveReader(top_k=1, no_answer=False)
    assert len(run("Who wrote the letter?", component)) == 1
    assert len(run("Who wrote the letter?", ExtractiveReader(no_answer=False), top_k=2)) == 2
    assert run("Who wrote the letter?", ExtractiveReader(no_answer=False), score_threshold=1.0) == []
    blank = [haystack.Document(content=None), haystack.Document(content=" \n")]
    assert [answer.data for answer in run("Who?", documents=blank)] == [None]
    assert [answer.data for answer in run("  ")] == [None]


def test_a_pipeline_with_it_can_be_written_down_and_read_again() -> None:
    pipeline = haystack.Pipeline()
    pipeline.add_component("reader", ExtractiveReader(model="small", top_k=3, answers_per_document=2, threads=1))
    again = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=["rmreader.integrations.haystack"])
    made = again.get_component("reader")
    assert (made.model, made.top_k, made.answers_per_document, made.threads) == ("small", 3, 2, 1)
    inputs = {"query": "Where was the valve built?", "documents": documents()}
    assert again.run({"reader": inputs})["reader"]["answers"][0].data == "Turin"
