"""SQuAD files: every layout is read, every bad row is named, and a file that is none is one sentence."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.data.encode import encode_file
from rmreader.data.split import split
from rmreader.data.squad import Dataset, Reference, read_squad
from rmreader.scoring.squad import score, score_adversarial

Write = Callable[..., Path]
Tree = dict[str, Any]


def test_rows_come_out_as_they_stand_in_the_file(tree: Tree, write: Write) -> None:
    for name in ("data.json", "data.json.gz"):
        dataset = read_squad(write(tree, name))
        assert dataset.problems == ()
        assert [article.title for article in dataset.articles] == ["Ada", "Rain"]
        assert [question.id for _, question in dataset.questions()] == ["q1", "q2", "q3", "q4", "q5"]
        for paragraph, question in dataset.questions():
            for answer in question.answers:
                assert paragraph.context[answer.start :].startswith(answer.text)
        first = next(dataset.questions())[1]
        assert first.answers == (Reference("Ada Lovelace", 0), Reference("Ada", 0))
        assert [question.impossible for _, question in dataset.questions()] == [False, False, False, True, False]


def test_a_byte_order_mark_is_taken(tree: Tree, write: Write) -> None:
    assert len(read_squad(write(b"\xef\xbb\xbf" + json.dumps(tree).encode())).articles) == 2


def row(tree: Tree) -> Tree:
    found: Tree = tree["data"][0]["paragraphs"][0]["qas"][1]
    return found


# What is done to the tree, the place that must be named (paragraph, id) and the words that must be said.
BAD_ROWS: dict[str, tuple[Callable[[Tree], Any], tuple[int | None, str | None], str]] = {
    "question missing": (lambda t: row(t).pop("question"), (0, "q2"), "'question' is missing"),
    "question a number": (lambda t: row(t).update(question=5), (0, "q2"), "'question' must be a text"),
    "question empty": (lambda t: row(t).update(question=" \u3000\n"), (0, "q2"), "the question is empty"),
    "id missing": (lambda t: row(t).pop("id"), (0, None), "'id' is missing"),
    "id a fraction": (lambda t: row(t).update(id=7.5), (0, None), "'id' must be a text"),
    "id true": (lambda t: row(t).update(id=True), (0, None), "'id' must be a text"),
    "id twice, once as a number": (
        lambda t: (t["data"][0]["paragraphs"][0]["qas"][0].update(id="7"), row(t).update(id=7)),
        (0, "7"),
        "a row before it has the same id",
    ),
    "id empty": (lambda t: row(t).update(id=""), (0, ""), "the id is empty"),
    "id twice": (lambda t: row(t).update(id="q1"), (0, "q1"), "a row before it has the same id"),
    "row a list": (lambda t: t["data"][0]["paragraphs"][0]["qas"].append([]), (0, None), "expected an object"),
    "answers missing": (lambda t: row(t).pop("answers"), (0, "q2"), "'answers' is missing"),
    "answers null": (lambda t: row(t).update(answers=None), (0, "q2"), "'answers' is missing"),
    "answers an object": (lambda t: row(t).update(answers={}), (0, "q2"), "'answers' must be a list"),
    "answers none": (lambda t: row(t).update(answers=[]), (0, "q2"), "no answers"),
    "answer a text": (lambda t: row(t).update(answers=["1815"]), (0, "q2"), "expected an object"),
    "answer text missing": (lambda t: row(t)["answers"][0].pop("text"), (0, "q2"), "'text' is missing"),
    "answer text empty": (lambda t: row(t)["answers"][0].update(text=""), (0, "q2"), "the answer is empty"),
    "answer_start missing": (
        lambda t: row(t)["answers"][0].pop("answer_start"),
        (0, "q2"),
        "'answer_start' is missing",
    ),
    "answer_start a text": (
        lambda t: row(t)["answers"][0].update(answer_start="22"),
        (0, "q2"),
        "'answer_start' must be a whole number, it is a text",
    ),
    "answer_start a float": (
        lambda t: row(t)["answers"][0].update(answer_start=22.0),
        (0, "q2"),
        "'answer_start' must be a whole number, it is a float",
    ),
    "answer_start true": (
        lambda t: row(t)["answers"][0].update(answer_start=True),
        (0, "q2"),
        "'answer_start' must be a whole number",
    ),
    "answer_start negative": (
        lambda t: row(t)["answers"][0].update(answer_start=-57),  # CONTEXT[-57:] starts with it
        (0, "q2"),
        "lies outside the passage of 79 characters",
    ),
    "answer_start too far": (lambda t: row(t)["answers"][0].update(answer_start=500), (0, "q2"), "lies outside"),
    "answer elsewhere": (
        lambda t: row(t)["answers"][0].update(answer_start=0),
        (0, "q2"),
        "answer '1815' is not at its offset 0, where the passage has 'Ada '",
    ),
    "one answer of two elsewhere": (
        lambda t: row(t)["answers"].append({"text": "Ada", "answer_start": 1}),
        (0, "q2"),
        "answer 'Ada' is not at its offset 1",
    ),
    "is_impossible a text": (
        lambda t: row(t).update(is_impossible="no"),
        (0, "q2"),
        "'is_impossible' must be true or false",
    ),
    "impossible with answers": (lambda t: row(t).update(is_impossible=True), (0, "q2"), "yet there are answers"),
}
BAD_PLACES: dict[str, tuple[Callable[[Tree], Any], tuple[int | None, str | None], str]] = {
    "context missing": (lambda t: t["data"][0]["paragraphs"][0].pop("context"), (0, None), "'context' is missing"),
    "context empty": (lambda t: t["data"][0]["paragraphs"][0].update(context="\n "), (0, None), "the context is empty"),
    "qas missing": (lambda t: t["data"][0]["paragraphs"][1].pop("qas"), (1, None), "'qas' is missing"),
    "paragraph null": (lambda t: t["data"][0]["paragraphs"].insert(1, None), (1, None), "expected an object"),
    "paragraphs missing": (lambda t: t["data"][0].pop("paragraphs"), (None, None), "'paragraphs' is missing"),
    "title a number": (lambda t: t["data"][0].update(title=3), (None, None), "'title' must be a text"),
    "article a number": (lambda t: t["data"].insert(0, 3), (None, None), "expected an object"),
}


@pytest.mark.parametrize("kind", [*BAD_ROWS, *BAD_PLACES])
def test_a_bad_row_is_named_counted_and_left_out(tree: Tree, write: Write, kind: str) -> None:
    spoil, place, what = (BAD_ROWS | BAD_PLACES)[kind]
    spoil(tree)
    path = write(tree)
    dataset = read_squad(path)
    assert len(dataset.problems) == 1
    problem = dataset.problems[0]
    assert (problem.file, problem.paragraph, problem.id) == (str(path), *place)
    assert problem.article.startswith("#0")
    assert what in problem.what
    kept = [question.id for _, question in dataset.questions()]
    if kind in BAD_ROWS:  # every other row is still there
        first = "7" if kind == "id twice, once as a number" else "q1"
        assert kept == [first, *(["q2"] if kind == "row a list" else []), "q3", "q4", "q5"]
    assert "q5" in kept
    assert "\n" not in str(problem)


COVID_QA: Tree = {  # its own layout: no version, no title, numbers as ids
    "data": [
        {
            "paragraphs": [
                {
                    "qas": [
                        {
                            "question": "What is the main cause of HIV-1 infection in children?",
                            "id": 262,
                            "answers": [{"text": "Mother-to-child transmission", "answer_start": 0}],
                            "is_impossible": False,
                        }
                    ],
                    "context": "Mother-to-child transmission (MTCT) is the main cause of HIV-1 infection in children.",
                    "document_id": 630,
                }
            ]
        }
    ]
}


@pytest.mark.parametrize("answers_needed", [True, False])
def test_numbers_as_ids_and_no_titles_are_read(write: Write, answers_needed: bool) -> None:
    dataset = read_squad(write(COVID_QA), answers_needed=answers_needed)
    assert dataset.problems == ()
    assert [(q.id, q.answers) for _, q in dataset.questions()] == [
        ("262", (Reference("Mother-to-child transmission", 0),))
    ]
    assert dataset.articles[0].title == ""


def test_where_every_row_is_skipped_the_sentence_says_why(write: Write) -> None:
    for answer in COVID_QA["data"][0]["paragraphs"][0]["qas"][0]["answers"]:
        path = write(json.loads(json.dumps(COVID_QA).replace(json.dumps(answer), '{"text": "no", "answer_start": 0}')))
    dataset = read_squad(path)
    with pytest.raises(UserError, match=r"no question.*all 1 rows were skipped.*id 262: answer 'no' is not at"):
        score(dataset, {})
    with pytest.raises(UserError, match=r"no question.*id 262: answer 'no' is not at"):
        score_adversarial(dataset, {})
    with pytest.raises(UserError, match=r"no question.*id 262: answer 'no' is not at"):
        split(encode_file(path, path.parent / "cache"), 0.0, 1)


def test_a_problem_reads_as_a_sentence(tree: Tree, write: Write) -> None:
    row(tree)["question"] = ""
    path = write(tree)
    assert str(read_squad(path).problems[0]) == f"{path}: article #0 'Ada', paragraph 0, id q2: the question is empty"


def test_answers_may_be_absent_at_prediction_time_only(tree: Tree, write: Write) -> None:
    row(tree).pop("answers")
    tree["data"][0]["paragraphs"][1]["qas"][0]["answers"] = []
    path = write(tree)
    assert [problem.id for problem in read_squad(path).problems] == ["q2", "q3"]
    dataset = read_squad(path, answers_needed=False)
    assert dataset.problems == ()
    assert len(list(dataset.questions())) == 5


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not valid JSON"),
        (b'{"data": [', r"line 1, column \d+: not valid JSON"),
        (b"\x80abc", "not UTF-8 text"),
        (b"[]", "not in the SQuAD layout"),
        (b'{"data": {}}', "not in the SQuAD layout"),
        (b'{"version": "1.1"}', "not in the SQuAD layout"),
        (b"[" * 200_000, "not readable JSON|not valid JSON"),
        (b'{"data": [' + b"9" * 5000 + b"]}", "not readable JSON"),
        (gzip.compress(b'{"data": []}' * 99, mtime=0)[:-9], "gzip data is cut short or damaged"),
        (gzip.compress(bytes(range(256)) * 99, mtime=0)[:60] + b"\0" * 60, "gzip data"),
        (b"\x1f\x8b", "gzip data"),
    ],
)
def test_a_file_that_is_no_data_is_one_sentence(write: Write, content: bytes, what: str) -> None:
    path = write(content)
    with pytest.raises(UserError, match=what) as caught:
        read_squad(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_squad(tmp_path / "none.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_squad(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


GOOD: Tree = {
    "data": [
        {
            "title": "T",
            "paragraphs": [
                {
                    "context": "one two",
                    "qas": [
                        {"id": "a", "question": "How many?", "answers": [{"text": "two", "answer_start": 4}]},
                        {"id": "b", "question": "And?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}


@st.composite
def spoilt_trees(draw: st.DrawFn) -> Tree:
    """A good tree with one value, anywhere below ``data``, replaced by anything."""
    tree = copy.deepcopy(GOOD)
    here: Any = tree["data"]
    while True:
        key = draw(st.sampled_from(range(len(here)) if isinstance(here, list) else sorted(here)))
        if not isinstance(here[key], (dict, list)) or not here[key] or draw(st.booleans()):
            here[key] = draw(JSON)
            return tree
        here = here[key]


@settings(max_examples=500, deadline=None)
@given(tree=spoilt_trees())
def test_whatever_stands_in_a_row_only_good_rows_come_out(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    path = tmp_path_factory.getbasetemp() / "spoilt.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    check_good(read_squad(path))


def check_good(dataset: Dataset) -> None:
    ids = [question.id for _, question in dataset.questions()]
    assert len(set(ids)) == len(ids)
    for paragraph, question in dataset.questions():
        assert question.text.strip()
        assert question.impossible is (not question.answers)
        for answer in question.answers:
            assert paragraph.context[answer.start : answer.start + len(answer.text)] == answer.text != ""


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "articles", "paragraphs", "questions"),
    [
        ("squad-v1.1/train-v1.1", 442, 18_896, 87_599),
        ("squad-v1.1/dev-v1.1", 48, 2_067, 10_570),
        ("adversarial/addsent", 48, None, 3_560),
        ("adversarial/addonesent", 48, None, 1_787),
    ],
)
def test_real_files_are_read_without_a_problem(
    real_data: Path, name: str, articles: int, paragraphs: int | None, questions: int
) -> None:
    dataset = read_squad(real_data / f"{name}.json.gz")
    assert dataset.problems == ()
    assert len(dataset.articles) == articles
    assert paragraphs in (None, sum(len(article.paragraphs) for article in dataset.articles))
    assert sum(1 for _ in dataset.questions()) == questions
    check_good(dataset)
