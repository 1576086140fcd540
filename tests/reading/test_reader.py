"""What a Reader promises, whatever the text: design §8.1 and §8.2."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.cli.asking import files_and_questions
from rmreader.core.errors import UserError
from rmreader.documents.shelf import Shelf
from rmreader.readers.folder import SHIPPED
from rmreader.reading.answers import Answer
from rmreader.reading.engine.engines import EncoderInput
from rmreader.reading.engine.inputs import WordInputs
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.highlight import highlight
from rmreader.reading.question import MAX_QUESTION
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import log_softmax, span_scores
from rmreader.scoring.squad import f1, normalize
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize

EXAMPLES = int(os.environ.get("RMREADER_EXAMPLES", "60"))  # 10000 for the whole promise
QUESTION = "Which team did the Denver Broncos defeat?"
PASSAGE = (
    "Super Bowl 50 was an American football game. The American Football Conference (AFC) champion Denver Broncos "
    "defeated the National Football Conference (NFC) champion Carolina Panthers 24–10 to earn their third title."
)

# every code point there is, lone surrogates among them, and the pieces that trip up tokenizers
CHARACTERS = st.characters() | st.characters(categories=["Cs", "Mn", "Zs", "Nl", "No", "Cf", "Cc"])
TEXTS = st.text(CHARACTERS, max_size=60) | st.lists(
    st.sampled_from(
        ["The", "U.S.", "½", "é", "e\u0301", "👩‍👩‍👧", "\ud800", "\x00", "\n", " ", "ﬁ", "İ", "24–10", "中文", "\u200d"]
    )
).map(" ".join)


def nearly(ours: list[Answer], theirs: list[Answer], tolerance: float = 1e-5) -> None:
    assert [dataclasses.replace(a, score=0, confidence=0) for a in ours] == [
        dataclasses.replace(a, score=0, confidence=0) for a in theirs
    ]
    for a, b in zip(ours, theirs, strict=True):
        assert a.score == pytest.approx(b.score, abs=tolerance)
        assert a.confidence == pytest.approx(b.confidence, abs=tolerance)


@given(question=TEXTS.filter(str.strip), passage=TEXTS, top=st.integers(1, 4))
@settings(max_examples=EXAMPLES, deadline=None)
def test_offsets_are_exact_for_any_text(reader: Reader, question: str, passage: str, top: int) -> None:
    answers = reader.ask(question, passage, top=top)
    assert tokenize(question).words
    assert bool(answers) == bool(tokenize(passage).words)
    for answer in answers:
        assert passage[answer.start : answer.end] == answer.text != ""
        assert answer.text in answer.sentence
        assert answer.sentence in passage
        assert 0 <= answer.confidence <= 1
        assert answer.score <= 0
    spans = [(answer.start, answer.end) for answer in answers]
    assert len(set(spans)) == len(spans)
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert [a.confidence for a in answers] == sorted((a.confidence for a in answers), reverse=True)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=6), st.randoms(), st.integers(1, 3))
@settings(max_examples=max(20, EXAMPLES // 20), deadline=None)
def test_ask_many_equals_ask_and_a_permuted_batch_gives_permuted_answers(
    reader: Reader, pairs: list[tuple[str, str]], shuffler: random.Random, top: int
) -> None:
    # A question without a word has no answer among others; alone it is refused.
    alone = [reader.ask(*pair, top=top) if pair[0].strip() else [] for pair in pairs]
    order = list(range(len(pairs)))
    shuffler.shuffle(order)
    together = list(reader.ask_many((pairs[k] for k in order), top=top, batch_size=4))
    for k, answers in zip(order, together, strict=True):
        nearly(answers, alone[k])


@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_a_batch_of_one_equals_a_batch_of_32(folder: Path, engine: Any) -> None:
    reader = Reader.load(folder, engine=engine)
    pairs = [(QUESTION[: 5 + k], PASSAGE[: 20 + 5 * k]) for k in range(32)]
    for pair, answers in zip(pairs, reader.ask_many(pairs, top=3, batch_size=32), strict=True):
        nearly(answers, reader.ask(*pair, top=3))


def test_int8_answers_do_not_depend_on_what_else_is_question(folder: Path) -> None:
    reader = Reader.load(folder, precision="int8", threads=2)
    pairs = [(QUESTION[: 5 + k], PASSAGE[: 20 + 5 * k]) for k in range(12)]
    for pair, answers in zip(pairs, reader.ask_many(pairs, top=2), strict=True):
        nearly(answers, reader.ask(*pair, top=2))


def test_questions_from_several_threads_do_not_meddle(folder: Path) -> None:
    reader = Reader.load(folder)
    pairs = [(QUESTION[: 5 + k], PASSAGE[: 20 + 5 * k]) for k in range(30)] * 3
    expected = [Reader.load(folder).ask(*pair) for pair in pairs[:3]]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda pair: reader.ask(*pair), pairs))
    for ours, theirs in zip(found[:30], found[60:], strict=True):
        nearly(ours, theirs)
    for ours, theirs in zip(found[:3], expected, strict=True):
        nearly(ours, theirs)


def test_confidence_is_the_f1_to_expect_over_all_spans_at_the_temperature(reader: Reader) -> None:
    hot = Reader(dataclasses.replace(reader.folder, about={"temperature": 2.5}), reader.engine)
    (answer,) = hot.ask(QUESTION, PASSAGE)
    every, words, longest = reader.ask(QUESTION, PASSAGE, top=10_000), tokenize(PASSAGE).words, reader.max_length
    (asked,) = reader.read([QuestionRow("", QUESTION, PASSAGE)])
    assert asked.spans is not None
    expected, total = 0.0, 0.0
    for i, row in enumerate(asked.spans):
        for j in range(i, min(i + longest, len(words))):
            p, span = math.exp(row[j - i] / 2.5), " ".join(words[i : j + 1])
            expected += p * f1(span, [word_by_word(answer)])
            total += p
    assert all(normalize(other.text) for other in every[1:])  # no others without a word
    assert answer.confidence == pytest.approx(expected / total)
    assert answer.score == pytest.approx(every[0].score)


def test_no_runner_up_is_without_a_word(reader: Reader) -> None:
    for passage in ("( the ) , a Denver .", "The Denver, a (Broncos)."):
        found = reader.ask("Which team?", passage, top=1000)
        assert len(found) > 1
        assert all(normalize(answer.text) for answer in found[1:])
    assert len(reader.ask("Which team?", "the ( a )", top=9)) == 1  # nothing else is there


def word_by_word(answer: Answer) -> str:
    return " ".join(tokenize(answer.text).words)


def test_score_is_the_log_probability_of_the_pointers(reader: Reader) -> None:
    scores = reader.engine.read(EncoderInput(QUESTION, PASSAGE, tokenize(QUESTION).words, tokenize(PASSAGE).words))
    log_p1, log_p2 = log_softmax(scores.start), log_softmax(scores.end)
    assert reader.ask(QUESTION, PASSAGE)[0].score == pytest.approx(span_scores(log_p1, log_p2, 15).max(), abs=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"top": 0}, {"top": -1}, {"min_confidence": 2.0}, {"min_confidence": float("nan")}, {"batch_size": 0}]
)
def test_a_wish_that_makes_no_sense_is_refused(reader: Reader, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        reader.ask_many([("Who?", "Ada.")], **wrong)
    if "batch_size" not in wrong:
        with pytest.raises(UserError, match=next(iter(wrong))):
            reader.ask("Who?", "Ada.", **wrong)


@pytest.mark.parametrize("wrong", [{"engine": "foo"}, {"precision": "int-8"}, {"threads": -1}, {"window": 0}])
def test_a_reader_is_not_loaded_in_a_way_there_is_none(folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        Reader.load(folder, **wrong)


def test_an_unsure_reader_says_that_there_is_no_answer(reader: Reader) -> None:
    (best,) = reader.ask(QUESTION, PASSAGE)
    assert reader.ask(QUESTION, PASSAGE, min_confidence=best.confidence + 1e-6) == []
    assert reader.ask(QUESTION, PASSAGE, min_confidence=best.confidence - 1e-6) == [best]
    assert list(reader.ask_many([(QUESTION, PASSAGE)], min_confidence=best.confidence + 1e-6)) == [[]]


@pytest.mark.parametrize(("question", "passage"), [("", PASSAGE), (QUESTION, ""), (" \n", PASSAGE), ("", "")])
def test_one_empty_pair_does_not_end_the_reading_of_the_others(reader: Reader, question: str, passage: str) -> None:
    assert list(reader.ask_many([(question, passage), (QUESTION, PASSAGE), (question, passage)])) == [
        [],
        reader.ask(QUESTION, PASSAGE),
        [],
    ]


@pytest.mark.parametrize("passage", ["", " \n"])
def test_nothing_to_read_is_no_answer(reader: Reader, passage: str) -> None:
    assert reader.ask(QUESTION, passage) == []
    assert list(reader.ask_in_parts(QUESTION, passage)) == [[]]
    assert reader.explain(QUESTION, passage).rounds == []


@settings(max_examples=20, deadline=None)
@given(st.text(st.sampled_from(" \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000"), max_size=5))
def test_a_question_without_a_word_is_refused_in_the_same_words_at_every_door(blanks: str) -> None:
    reader = Reader.load("small")
    sentence = "^the question is empty; ask something\\.$"
    calls: list[Callable[[], object]] = [
        lambda: reader.ask(blanks, PASSAGE),
        lambda: list(reader.ask_in_parts(blanks, PASSAGE)),
        lambda: reader.explain(blanks, PASSAGE),
        lambda: highlight(blanks, [PASSAGE], reader=reader),
        lambda: Shelf.open("none.rmindex", reader).ask(blanks),
        lambda: Shelf.open("none.rmindex", reader).search(blanks),
        lambda: files_and_questions([blanks], []),
    ]
    for call in calls:
        with pytest.raises(UserError, match=sentence):
            call()


@pytest.mark.parametrize("wrong", ["3", 3.0, None, True, [3], 0, -1, float("nan")])
def test_a_number_that_is_none_is_told_in_a_sentence(reader: Reader, wrong: Any) -> None:
    sentence = re.escape(f"top is a whole number of at least 1, not {wrong!r}.")
    calls: list[Callable[[], object]] = [
        lambda: reader.ask(QUESTION, PASSAGE, top=wrong),
        lambda: reader.ask_many([(QUESTION, PASSAGE)], top=wrong),
        lambda: list(reader.ask_in_parts(QUESTION, PASSAGE, top=wrong)),
        lambda: highlight(QUESTION, [PASSAGE], reader=reader, top=wrong),
        lambda: Shelf.open("none.rmindex", reader).ask(QUESTION, top=wrong),
    ]
    for call in calls:
        with pytest.raises(UserError, match=f"^{sentence}$"):
            call()


@pytest.mark.parametrize("wrong", ["0.5", None, True, -0.1, 1.1, float("nan"), float("inf")])
def test_a_share_that_is_none_is_told_in_a_sentence(reader: Reader, wrong: Any) -> None:
    sentence = re.escape(f"min_confidence is a number between 0 and 1, not {wrong!r}.")
    for call in (
        lambda: reader.ask(QUESTION, PASSAGE, min_confidence=wrong),
        lambda: highlight(QUESTION, [PASSAGE], reader=reader, min_confidence=wrong),
        lambda: Shelf.open("none.rmindex", reader).ask(QUESTION, min_confidence=wrong),
    ):
        with pytest.raises(UserError, match=f"^{sentence}$"):
            call()


def test_numbers_of_numpy_are_numbers(reader: Reader) -> None:
    answers = reader.ask(QUESTION, PASSAGE, top=np.int64(2), min_confidence=np.float32(0))
    assert answers == reader.ask(QUESTION, PASSAGE, top=2)


@pytest.mark.parametrize("options", [{}, {"threads": 1, "window": 250, "max_length": 4, "precision": "int8"}])
def test_a_reader_travels_as_its_name_and_options(folder: Path, options: dict[str, Any], tmp_path: Path) -> None:
    reader = Reader.load(os.path.relpath(folder), **options)
    content = pickle.dumps(reader)
    assert len(content) < 1000
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).ask(*sys.argv[1:]))"
    words = [sys.executable, "-c", script, QUESTION, PASSAGE]  # another process, in another folder
    done = subprocess.run(words, input=content, capture_output=True, cwd=tmp_path, check=True, timeout=120)
    assert done.stdout.decode().strip() == str(reader.ask(QUESTION, PASSAGE))
    again = pickle.loads(content)
    assert (again.window, again.max_length) == (reader.window, reader.max_length)
    both = Ensemble.of([folder, folder], **options)
    assert pickle.loads(pickle.dumps(both)).ask(QUESTION, PASSAGE) == both.ask(QUESTION, PASSAGE)
    with pytest.raises(TypeError, match=r"Reader\.load"):
        pickle.dumps(Reader(reader.folder, reader.engine))


def test_a_shipped_reader_travels_by_its_name() -> None:
    assert b"small" in (content := pickle.dumps(Reader.load("small")))
    assert str(SHIPPED).encode() not in content


@pytest.mark.parametrize("both", [True, False])
def test_ask_many_takes_mappings_and_refuses_nonsense(reader: Reader, both: bool) -> None:
    (answers,) = reader.ask_many([{"question": QUESTION, "passage" if both else "context": PASSAGE}])
    assert answers == reader.ask(QUESTION, PASSAGE)
    for nonsense in (
        {"question": QUESTION},
        {"context": PASSAGE},
        {},
        "ab",
        ("q",),
        ("q", "p", "x"),
        (1, "p"),
        5,
        None,
    ):
        with pytest.raises(UserError, match="question"):
            list(reader.ask_many([nonsense]))  # type: ignore[list-item]


def test_candidates_are_different_answers(reader: Reader, windowed: Reader) -> None:
    for one, passage in ((reader, PASSAGE), (windowed, " ".join(f"{PASSAGE} Paragraph {k}." for k in range(9)))):
        answers = one.ask(QUESTION, passage, top=5)
        assert len(answers) == 5
        for number, answer in enumerate(answers):
            assert all(answer.end <= other.start or other.end <= answer.start for other in answers[:number])
        assert answers[0] == one.ask(QUESTION, passage)[0]
    # where there are not so many, the list is shorter
    few = [answer.text for answer in reader.ask("Who?", "Ada Lovelace", top=3)]
    assert sorted(few) in (["Ada", "Lovelace"], ["Ada Lovelace"])


def test_no_text_comes_twice_and_no_empty_word_is_a_candidate(reader: Reader) -> None:
    passage = "Denver won at home. The winner is Denver. At night, for Denver, they sang for it."
    found = reader.ask("Which team won?", passage, top=20)
    texts = [normalize(answer.text) for answer in found]
    assert len(texts) > 2
    assert len(set(texts)) == len(texts)
    assert not {"at", "for", "is", "it"} & set(texts[1:])


def test_answers_may_be_longer_than_the_recipe_says(folder: Path, reader: Reader) -> None:
    pair = EncoderInput(QUESTION, PASSAGE, tokenize(QUESTION).words, tokenize(PASSAGE).words)
    scores = reader.engine.read(pair)
    for longest in (1, 3, 40):
        (answer,) = Reader.load(folder, max_length=longest).ask(QUESTION, PASSAGE)
        best = span_scores(log_softmax(scores.start), log_softmax(scores.end), longest).max()
        assert answer.score == pytest.approx(best, abs=1e-5)
        assert len(tokenize(answer.text)) <= longest
    with pytest.raises(UserError, match="max_length is at most 500"):
        Reader.load(folder, max_length=501)


@given(st.integers(1, 300), st.lists(st.sampled_from(["\n\n", "\t", "\n \r\n", "\n\n\n"]), max_size=12), st.randoms())
@settings(max_examples=20, deadline=None)
def test_no_answer_reaches_across_a_blank_line_or_a_tab(
    reader: Reader, windowed: Reader, words: int, gaps: list[str], shuffler: random.Random
) -> None:
    parts = (tokenize(PASSAGE).words * 10)[:words]
    for gap in gaps:
        parts.insert(shuffler.randrange(len(parts) + 1), gap)
    text = " ".join(parts)
    for one in (reader, windowed):
        answers = [*one.ask(QUESTION, text, top=20), *next(one.ask_many([(QUESTION, text)], top=20))]
        assert answers
        assert not any("\t" in answer.text or answer.text.replace(" ", "").count("\n") > 1 for answer in answers)


def test_a_paragraph_without_a_stop_is_read_with_one(reader: Reader) -> None:
    text = "Ingredients\n\n400 g flour\n\n\n(80 g butter)\n\nHe said: “Stop.”\n \nLine\none\n\nLast item"
    asked = reader._question(QuestionRow("", "How much flour?", text))
    pair = asked.pair(asked.portions[0])
    assert " ".join(pair.context_words) == (
        "Ingredients . 400 g flour . ( 80 g butter ) . He said : “ Stop . ” Line one . Last item"
    )
    whole = tokenize(text)
    assert [pair.context_words[k] for k in asked.own(asked.portions[0])] == whole.words
    why = reader.explain("How much flour?", text)
    assert why.passage.words == whole.words
    assert all(one.self.shape == (len(whole), len(whole)) for one in why.rounds)
    for answer in reader.ask("How much flour?", text, top=20, always=True):
        assert text[answer.start : answer.end] == answer.text != ""


@pytest.mark.parametrize("text", [PASSAGE, "Ada\nwrote\tit", "Ada wrote it.\n\nIn London", ""])
def test_other_texts_are_read_as_they_are(reader: Reader, text: str) -> None:
    asked = reader._question(QuestionRow("", QUESTION, text))
    for portion in asked.portions:
        pair = asked.pair(portion)
        assert (pair.context, pair.context_words) == (text, tokenize(text).words)


def test_questions_are_taken_one_by_one_and_answers_given_as_they_come(reader: Reader) -> None:
    taken = []

    def endless() -> Any:
        while True:
            taken.append(1)
            yield QUESTION, PASSAGE

    answers = reader.ask_many(endless(), batch_size=4)
    first = [next(answers) for _ in range(5)]
    answers.close()  # type: ignore[attr-defined]
    assert all(one == first[0] for one in first)
    assert len(taken) < 40


def test_a_question_of_5000_words_is_read_and_a_longer_one_refused_by_name(reader: Reader) -> None:
    assert reader.ask("why " * 5000, PASSAGE)
    with pytest.raises(UserError, match=f"{MAX_QUESTION:,}"):
        reader.ask("why " * (MAX_QUESTION + 1), PASSAGE)


def test_explanations_hold_every_round_by_token(reader: Reader, windowed: Reader) -> None:
    why = reader.explain(QUESTION, PASSAGE)
    n, m, blocks = len(tokenize(QUESTION)), len(tokenize(PASSAGE)), reader.folder.recipe.network.blocks
    assert [(one.interactive.shape, one.self.shape) for one in why.rounds] == [((n, m), (m, m))] * blocks
    for one in why.rounds:
        np.testing.assert_allclose(one.interactive.sum(axis=0), 1, atol=1e-5)
        np.testing.assert_allclose(one.self.sum(axis=0), 1, atol=1e-5)
    asked = reader._question(QuestionRow("", QUESTION, PASSAGE))
    for one, (E, _) in zip(why.rounds, reader.engine.attend(asked.pair(asked.portions[0])), strict=True):
        rows = np.exp(E - E.max(axis=1, keepdims=True))  # softmax(E_i:)
        np.testing.assert_allclose(one.context, rows / rows.sum(axis=1, keepdims=True), atol=1e-5)
    tree = json.loads(json.dumps(why.to_json()))
    assert [PASSAGE[word["start"] : word["end"]] for word in tree["passage"]] == tokenize(PASSAGE).words
    assert [word["text"] for word in tree["question"]] == tokenize(QUESTION).words
    assert len(tree["rounds"][1]["self"]) == m
    long = PASSAGE + " " + "and so on ; " * 200
    part = windowed.explain(QUESTION, long)
    (best,) = windowed.ask(QUESTION, long)
    assert part.passage.starts[0] <= best.start < best.end <= part.passage.ends[-1]
    assert len(part.passage) == part.rounds[0].self.shape[0] < len(tokenize(long))


def test_words_that_were_forgotten_are_learned_again(folder: Path, reader: Reader) -> None:
    weights, inputs = reader.folder.weights(), reader.folder.recipe.inputs
    lexicon = Lexicon.load(folder)
    forgetful, whole = WordInputs(lexicon, weights, inputs, capacity=10), WordInputs(lexicon, weights, inputs)
    words = tokenize(PASSAGE).words
    for begin in range(0, len(words), 3):
        question, context = words[begin : begin + 3], words[begin + 2 : begin + 8 + begin % 7]
        for ours, theirs in zip(forgetful(question, context), whole(question, context), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert len(forgetful(words, words)[0]) == len(words)  # more distinct words than it keeps


def test_what_is_no_text_is_refused_in_one_sentence(reader: Reader) -> None:
    with pytest.raises(UserError, match="the question is a text, not NoneType"):
        reader.ask(None, PASSAGE)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the passage is a text, not bytes"):
        reader.explain(QUESTION, PASSAGE.encode())  # type: ignore[arg-type]
    assert reader.folder.path.name in repr(reader)
