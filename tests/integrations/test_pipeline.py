"""transformers' question-answering call: the documented forms and results, and the same shapes as theirs, by field.

The comparison runs where a transformers before 5.3 is installed (`.ci/plugs`): later ones have no such pipeline.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rmreader
from rmreader.core.errors import UserError
from rmreader.integrations.pipeline import QuestionAnswering
from rmreader.readers.folder import find

CONTEXT = "My name is Wolfgang and I live in Berlin. The letter was written by Ada Lovelace in 1843."
WHERE, WHO = "Where do I live?", "Who wrote the letter?"
SILENT = "How many windows does the castle have?"


@pytest.fixture(scope="module")
def qa() -> QuestionAnswering:
    return rmreader.pipeline("question-answering", model="small")


def squad_example(question: str, context: str) -> Any:
    return SimpleNamespace(question_text=question, context_text=context)


FORMS: dict[str, Callable[[Any, Callable[[str, str], Any]], Any]] = {
    "keywords": lambda qa, _: qa(question=WHERE, context=CONTEXT),
    "list of questions": lambda qa, _: qa(question=[WHERE, WHO], context=CONTEXT),
    "two lists": lambda qa, _: qa(question=[WHERE, WHO], context=[CONTEXT, CONTEXT]),
    "lists of one": lambda qa, _: qa(question=[WHERE], context=[CONTEXT]),
    "top 3": lambda qa, _: qa(question=WHERE, context=CONTEXT, top_k=3),
    "two questions, top 2": lambda qa, _: qa(question=[WHERE, WHO], context=CONTEXT, top_k=2),
    "impossible, top 3": lambda qa, _: qa(question=WHERE, context=CONTEXT, top_k=3, handle_impossible_answer=True),
    "longest answer": lambda qa, _: qa(question=WHERE, context=CONTEXT, max_answer_len=1),
    "without effect": lambda qa, _: qa(
        question=WHERE, context=CONTEXT, doc_stride=64, max_seq_len=128, max_question_len=32, align_to_words=True
    ),
}
POSITIONAL: dict[str, Callable[[Any, Callable[[str, str], Any]], Any]] = {  # until 4.57
    "dictionary": lambda qa, _: qa({"question": WHERE, "context": CONTEXT}),
    "list of dictionaries": lambda qa, _: qa([{"question": WHERE, "context": CONTEXT}] * 2),
    "several dictionaries": lambda qa, _: qa(*[{"question": WHERE, "context": CONTEXT}] * 2),
    "a list of one dictionary": lambda qa, _: qa([{"question": WHERE, "context": CONTEXT}]),
    "two texts": lambda qa, _: qa(WHERE, CONTEXT),
    "an example": lambda qa, example: qa([example(WHERE, CONTEXT)]),
    "examples, top 2": lambda qa, example: qa([example(WHERE, CONTEXT), example(WHO, CONTEXT)], top_k=2),
    "a generator": lambda qa, _: list(qa({"question": q, "context": CONTEXT} for q in (WHERE, WHO))),
}


def shape(value: Any) -> Any:
    """Lists, keys and types, without the values."""
    if isinstance(value, list):
        return [shape(one) for one in value]
    assert list(value) == ["score", "start", "end", "answer"]
    return {key: type(one) for key, one in value.items()}


def flat(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from flat(one)
    else:
        yield value


def test_an_example_may_come_alone(qa: QuestionAnswering) -> None:
    assert qa(squad_example(WHERE, CONTEXT))["answer"] == "Berlin"


@pytest.mark.parametrize("form", [*FORMS, *POSITIONAL])
def test_every_form_gives_the_documented_result(qa: QuestionAnswering, form: str) -> None:
    found = (FORMS | POSITIONAL)[form](qa, squad_example)
    one = {"score": float, "start": int, "end": int, "answer": str}
    several = {"list of questions": 2, "two lists": 2, "list of dictionaries": 2, "several dictionaries": 2}
    nested = {"two questions, top 2": [[one] * 2] * 2, "examples, top 2": [[one] * 2] * 2, "a generator": [one] * 2}
    lists = {form: [one] * count for form, count in several.items()} | {
        "top 3": [one] * 3,
        "impossible, top 3": [one] * 3,
    }
    assert shape(found) == (lists | nested).get(form, one)
    for answer in flat(found):
        assert CONTEXT[answer["start"] : answer["end"]] == answer["answer"]
        assert 0 <= answer["score"] <= 1
    assert next(flat(found))["answer"] == "Berlin"


def test_results_are_the_reader_s_own(qa: QuestionAnswering) -> None:
    best, *rest = qa.reader.ask(WHO, CONTEXT, top=2, always=True)
    first, *others = qa(question=WHO, context=CONTEXT, top_k=2)
    assert first == {"score": best.confidence, "start": best.start, "end": best.end, "answer": best.text}
    assert [other["answer"] for other in others] == [answer.text for answer in rest]
    assert qa(question=WHO, context=CONTEXT, max_answer_len=1)["answer"] in ("Ada", "Lovelace")
    assert qa(question=WHO, context=CONTEXT)["answer"] == "Ada Lovelace"  # the next call is as before


def test_an_impossible_answer_is_first_where_the_reader_decides_so(qa: QuestionAnswering) -> None:
    none = qa.reader.ask(SILENT, CONTEXT).none
    silent = qa(question=SILENT, context=CONTEXT, handle_impossible_answer=True)
    assert silent == {"score": none, "start": 0, "end": 0, "answer": ""}
    assert qa(question=SILENT, context=CONTEXT)["answer"]  # else there is always one
    some = qa(question=WHO, context=CONTEXT, handle_impossible_answer=True, top_k=2)
    assert [answer["answer"] for answer in some] == ["Ada Lovelace", ""]
    assert some[0]["score"] == qa.reader.ask(WHO, CONTEXT)[0].confidence


def test_defaults_can_be_given_when_it_is_made(qa: QuestionAnswering) -> None:
    made = rmreader.pipeline(model=qa.reader, top_k=2)
    assert len(made(question=WHO, context=CONTEXT)) == 2
    assert made(question=WHO, context=CONTEXT, top_k=1)["answer"] == "Ada Lovelace"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda qa: qa(), "'question' is missing"),
        (lambda qa: qa(question=WHO), "'context' is missing"),
        (lambda qa: qa({"question": WHO}), "'context' is missing"),
        (lambda qa: qa(question=WHO, context=""), "'context' is empty"),
        (lambda qa: qa(question=" ", context=CONTEXT), "'question' is empty"),
        (lambda qa: qa(question=WHO, context=7), "'context' is not text but int"),
        (lambda qa: qa(question=[WHO, WHO], context=[CONTEXT]), "2 questions with 1 contexts"),
        (lambda qa: qa(7), "'question' is missing"),
        (lambda qa: qa(WHO), "'question' is missing"),
        (lambda qa: qa({"question": WHO, "context": CONTEXT}, question=WHO), "either by position or"),
        (lambda qa: qa(question=WHO, context=CONTEXT, top_k=0), "top_k is a whole number of at least 1, not 0"),
        (lambda qa: qa(question=WHO, context=CONTEXT, max_answer_len=10_000), "max_answer_len is at most 500"),
        (lambda qa: qa(question=WHO, context=CONTEXT, topp=3), "no option 'topp'; there are top_k"),
        (lambda qa: rmreader.pipeline("text-generation"), "the task is 'question-answering', not 'text-generation'"),
        (lambda qa: rmreader.pipeline(model="no-such-reader"), "no-such-reader"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(qa: QuestionAnswering, call: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        call(qa)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """transformers' own pipeline, around a small network that knows nothing."""
    transformers = pytest.importorskip("transformers")
    try:
        made = importlib.import_module("transformers.pipelines.question_answering").QuestionAnsweringPipeline
    except ImportError:
        pytest.skip(f"transformers {transformers.__version__} has no question-answering pipeline; `.ci/plugs` has one")
    file = find("base") / "encoder" / "tokenizer.json"
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(Path(file)), cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]"
    )
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    network = transformers.BertForQuestionAnswering(transformers.BertConfig(**sizes))
    return transformers, made(model=network.eval(), tokenizer=tokenizer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", [*FORMS, *POSITIONAL])
def test_the_shape_is_theirs(qa: QuestionAnswering, theirs: Any, form: str) -> None:
    transformers, made = theirs
    if form in POSITIONAL and transformers.__version__ >= "5":
        pytest.skip("transformers 5 takes keywords alone")

    def example(question: str, context: str) -> Any:
        return transformers.SquadExample(None, question, context, None, None, None)

    expected = (FORMS | POSITIONAL)[form](made, example)
    assert shape((FORMS | POSITIONAL)[form](qa, example)) == shape(expected)
