"""The call and the results of transformers' question-answering pipeline, which they removed in 5.3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError, quoted
from rmreader.reading.answers import Answers
from rmreader.reading.reader import MOST_LENGTH, Reader

_DEFAULTS = {"top_k": 1, "max_answer_len": None, "handle_impossible_answer": False, "batch_size": 32}
_WITHOUT_EFFECT = {"doc_stride", "max_seq_len", "max_question_len", "padding", "align_to_words"}
_OLD_NAMES = {"topk": "top_k"}


def pipeline(
    task: str = "question-answering",
    model: str | Path | Reader = "small",
    *,
    threads: int | None = None,
    **options: Any,
) -> QuestionAnswering:
    """A reader behind the call of transformers' question-answering pipeline.

    ``model`` is what ``Reader.load`` takes, or a reader that is loaded; ``options`` are the defaults of its calls.

    >>> qa = pipeline("question-answering", model="small")
    >>> qa(question="Who wrote it?", context="The letter was written by Ada Lovelace.")["answer"]
    'Ada Lovelace'
    """
    if task != "question-answering":
        raise UserError(f"the task is 'question-answering', not {quoted(task)}.")
    return QuestionAnswering(model if isinstance(model, Reader) else Reader.load(model, threads=threads), **options)


class QuestionAnswering:
    """What ``pipeline`` gives: questions in, ``{"score", "start", "end", "answer"}`` out, as transformers documents."""

    task = "question-answering"

    def __init__(self, reader: Reader, **options: Any) -> None:
        self.reader, self.options = reader, _DEFAULTS | _options(options)

    def __call__(self, *inputs: Any, question: Any = None, context: Any = None, **options: Any) -> Any:
        """Answer one question, or several in order.

        One is ``question=…, context=…``, a mapping with these keys, or an object with ``question_text`` and
        ``context_text`` (``SquadExample``). Several are a list of them, lists in the keywords (one context may serve
        all questions), or a generator, answered as it goes. One question gives one result, a list of one too.

        ``top_k`` answers at most, each ``{"score", "start", "end", "answer"}``, ``score`` the calibrated confidence; a
        list, best first, unless there is only one. ``max_answer_len`` is in tokens, by default the reader's. With
        ``handle_impossible_answer`` the empty answer, ``start`` and ``end`` 0, is among them, with the chance that the
        context does not say; it is first where the reader decides so. ``doc_stride``, ``max_seq_len``,
        ``max_question_len``, ``padding`` and ``align_to_words`` change nothing: texts of any length are read whole.
        """
        chosen = self.options | _options(options)
        asked = _inputs(inputs, question, context)
        if isinstance(asked, Iterator):
            return self._answer(map(_pair, asked), chosen)
        pairs = [_pair(one) for one in asked]
        results = list(self._answer(pairs, chosen))
        return results[0] if len(results) == 1 else results

    def _answer(self, pairs: Iterable[tuple[str, str]], chosen: Mapping[str, Any]) -> Iterator[Any]:
        reader = _with_length(self.reader, chosen["max_answer_len"])
        top, impossible = chosen["top_k"], bool(chosen["handle_impossible_answer"])
        found = reader.ask_many(pairs, top=top, always=True, batch_size=chosen["batch_size"])
        for answers in found:
            results = _results(answers, impossible)[:top]
            yield results[0] if len(results) == 1 else results


def _results(answers: Answers, impossible: bool) -> list[dict[str, Any]]:
    """Answers as dictionaries, the empty one among them where that was asked for and the reader knows its chance."""
    none = answers.no_answer if impossible and answers else None
    left = 1.0 if none is None else 1.0 - none
    results: list[dict[str, Any]] = [
        {"score": one.confidence * left, "start": one.start, "end": one.end, "answer": one.text} for one in answers
    ]
    if none is not None:
        surer = sum(result["score"] >= none for result in results)
        place = 0 if answers.absent else max(1, surer)  # the decision, not the score, says what is first
        results.insert(place, {"score": none, "start": 0, "end": 0, "answer": ""})
    return results


def _inputs(inputs: tuple[Any, ...], question: Any, context: Any) -> Iterator[Any] | list[Any]:
    """What was asked, one thing per question, out of every way to call it."""
    if not inputs:
        questions = question if isinstance(question, list) else [question]
        contexts = context if isinstance(context, list) else [context] * len(questions)
        if len(questions) != len(contexts):
            raise UserError(f"{len(questions)} questions with {len(contexts)} contexts; give one context, or as many.")
        return [{"question": one, "context": text} for one, text in zip(questions, contexts, strict=True)]
    if question is not None or context is not None:
        raise UserError("give the questions either by position or as question=… and context=…, and not both.")
    if len(inputs) == 2 and all(isinstance(one, str) for one in inputs):
        return [{"question": inputs[0], "context": inputs[1]}]
    given = inputs[0] if len(inputs) == 1 else list(inputs)
    if isinstance(given, Iterator):
        return given
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [given]


def _pair(one: Any) -> tuple[str, str]:
    """A question and its context; refused where one is missing, no text or blank."""
    pair: Any
    if isinstance(one, Mapping):
        pair = one.get("question"), one.get("context")
    else:
        pair = getattr(one, "question_text", None), getattr(one, "context_text", None)
    for name, text in zip(("question", "context"), pair, strict=True):
        if not isinstance(text, str):
            what = "missing" if text is None else f"no text but {type(text).__name__}"
            raise UserError(f"{name!r} is {what}; a question is question=…, context=…, or a mapping with these keys.")
        if not text.strip():
            raise UserError(f"{name!r} is empty; give a text.")
    question, context = pair
    return question, context


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, checked."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        name = _OLD_NAMES.get(name, name)
        if name not in _DEFAULTS and name not in _WITHOUT_EFFECT:
            raise UserError(f"no option {name!r}; there are {', '.join(_DEFAULTS)}.")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name in ("top_k", "max_answer_len", "batch_size") and value is not None and not (whole and value >= 1):
            raise UserError(f"{name} is a whole number of at least 1, not {quoted(value)}.")
        if name == "max_answer_len" and value is not None and value > MOST_LENGTH:
            raise UserError(f"max_answer_len is at most {MOST_LENGTH} tokens, not {value:,}.")
        if name in _DEFAULTS and value is not None:
            options[name] = value
    return options


def _with_length(reader: Reader, length: int | None) -> Reader:
    """The same reader, for answers of another length: it shares all that was loaded."""
    if length is None or length == reader.max_length:
        return reader
    other = object.__new__(type(reader))
    other.__dict__ = reader.__dict__ | {"max_length": length}
    return other
