"""The call and the results of transformers' question-answering pipeline, removed in 5.3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rmreader.core.checks import check_count
from rmreader.core.errors import UserError, quoted
from rmreader.reading.answers import Answers
from rmreader.reading.reader import MOST_LENGTH, Reader

_DEFAULTS = {
    "top_k": 1,
    "max_answer_len": None,
    "handle_impossible_answer": False,
    "batch_size": 32,
}
_NUMBERS = ("top_k", "max_answer_len", "batch_size")
_WITHOUT_EFFECT = {"doc_stride", "max_seq_len", "max_question_len", "padding", "align_to_words"}
_OLD_NAMES = {"topk": "top_k"}


def pipeline(
    task: str = "question-answering",
    model: str | Path | Reader = "small",
    *,
    threads: int | None = None,
    **options: Any,
) -> QuestionAnswering:
    """Return a reader behind the call of transformers' question-answering pipeline.

    ``model`` is what ``Reader.load`` takes, or a reader that is loaded; ``options`` are the
    defaults of its calls.

    >>> qa = pipeline("question-answering", model="small")
    >>> qa(question="Who wrote it?", context="The letter was written by Ada Lovelace.")["answer"]
    'Ada Lovelace'
    """
    if task != "question-answering":
        raise UserError(f"the task is 'question-answering', not {quoted(task)}.")
    reader = model if isinstance(model, Reader) else Reader.load(model, threads=threads)
    return QuestionAnswering(reader, **options)


class QuestionAnswering:
    """Questions in, ``{"score", "start", "end", "answer"}`` out, as transformers documents it."""

    task = "question-answering"

    def __init__(self, reader: Reader, **options: Any) -> None:
        self.reader = reader
        self.options = _DEFAULTS | _options(options)

    def __call__(
        self,
        *inputs: Any,
        question: Any = None,
        context: Any = None,
        **options: Any,
    ) -> Any:
        """Answer one question, or several in order.

        One is ``question=…, context=…``, a mapping with these keys, or an object with
        ``question_text`` and ``context_text`` (``SquadExample``). Several are a list of them, lists
        in the keywords (one context may serve all questions), or a generator, answered as it goes.
        One question gives one result, a list of one too.

        ``top_k`` answers at most, each ``{"score", "start", "end", "answer"}``, ``score`` the
        calibrated confidence; a list, best first, unless there is only one. ``max_answer_len`` is
        in tokens, by default the reader's. With ``handle_impossible_answer`` the empty answer,
        ``start`` and ``end`` 0, is among them, with the chance that the context does not say; it is
        first where the reader decides so. ``doc_stride``, ``max_seq_len``, ``max_question_len``,
        ``padding`` and ``align_to_words`` change nothing: texts of any length are read whole.
        """
        chosen = self.options | _options(options)
        items = _inputs(inputs, question, context)
        if isinstance(items, Iterator):
            return self._answer(map(_pair, items), chosen)
        pairs = [_pair(item) for item in items]
        results = list(self._answer(pairs, chosen))
        return results[0] if len(results) == 1 else results

    def _answer(
        self,
        pairs: Iterable[tuple[str, str]],
        chosen: Mapping[str, Any],
    ) -> Iterator[Any]:
        reader = _with_length(self.reader, chosen["max_answer_len"])
        top = chosen["top_k"]
        impossible = bool(chosen["handle_impossible_answer"])
        batch_size = chosen["batch_size"]
        for answers in reader.ask_many(pairs, top=top, always=True, batch_size=batch_size):
            results = _results(answers, impossible)[:top]
            yield results[0] if len(results) == 1 else results


def _results(answers: Answers, impossible: bool) -> list[dict[str, Any]]:
    """Return answers as dictionaries.

    The empty one is among them where that was asked for and the reader knows its chance.
    """
    none = answers.no_answer if impossible and answers else None
    left = 1.0 if none is None else 1.0 - none
    results: list[dict[str, Any]] = []
    for answer in answers:
        results.append(
            {
                "score": answer.confidence * left,
                "start": answer.start,
                "end": answer.end,
                "answer": answer.text,
            }
        )
    if none is not None:
        surer = sum(result["score"] >= none for result in results)
        # The decision, not the score, says what is first.
        place = 0 if answers.absent else max(1, surer)
        results.insert(place, {"score": none, "start": 0, "end": 0, "answer": ""})
    return results


def _inputs(inputs: tuple[Any, ...], question: Any, context: Any) -> Iterator[Any] | list[Any]:
    """Return one item per question, whichever way it was called."""
    if not inputs:
        return _keyword_inputs(question, context)
    if question is not None or context is not None:
        raise UserError(
            "give the questions either by position or as question=… and context=…, and not both."
        )
    if len(inputs) == 2 and all(isinstance(text, str) for text in inputs):
        return [{"question": inputs[0], "context": inputs[1]}]
    if len(inputs) > 1:
        return list(inputs)
    only = inputs[0]
    if isinstance(only, Iterator):
        return only
    if isinstance(only, Iterable) and not isinstance(only, str | Mapping):
        return list(only)
    return [only]


def _keyword_inputs(question: Any, context: Any) -> list[Any]:
    questions = question if isinstance(question, list) else [question]
    contexts = context if isinstance(context, list) else [context] * len(questions)
    if len(questions) != len(contexts):
        raise UserError(
            f"{len(questions)} questions with {len(contexts)} contexts; "
            "give one context, or as many."
        )
    pairs = zip(questions, contexts, strict=True)
    return [{"question": question, "context": context} for question, context in pairs]


def _pair(item: Any) -> tuple[str, str]:
    """Return a question and its context; refused where one is missing, not text or blank."""
    if isinstance(item, Mapping):
        question = item.get("question")
        context = item.get("context")
    else:
        question = getattr(item, "question_text", None)
        context = getattr(item, "context_text", None)
    return _checked("question", question), _checked("context", context)


def _checked(name: str, text: Any) -> str:
    if not isinstance(text, str):
        what = "missing" if text is None else f"not text but {type(text).__name__}"
        raise UserError(
            f"{name!r} is {what}; a question is question=…, context=…, "
            "or a mapping with these keys."
        )
    if not text.strip():
        raise UserError(f"{name!r} is empty; give a text.")
    return text


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, checked."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        name = _OLD_NAMES.get(name, name)
        if name not in _DEFAULTS and name not in _WITHOUT_EFFECT:
            raise UserError(f"no option {name!r}; there are {', '.join(_DEFAULTS)}.")
        if value is None:
            continue
        if name in _NUMBERS:
            _check_number(name, value)
        if name in _DEFAULTS:
            options[name] = value
    return options


def _check_number(name: str, value: Any) -> None:
    check_count(name, value)
    if name == "max_answer_len" and value > MOST_LENGTH:
        raise UserError(f"max_answer_len is at most {MOST_LENGTH} tokens, not {value:,}.")


def _with_length(reader: Reader, length: int | None) -> Reader:
    """Return the same reader for answers of another length."""
    if length is None or length == reader.max_length:
        return reader
    # copy.copy would load the reader again, as pickle does; this one shares all that was loaded.
    other = object.__new__(type(reader))
    other.__dict__ = reader.__dict__ | {"max_length": length}
    return other
