"""What a reader gives: answers, how sure they are, and their one spelling as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar, overload

from rmreader.core.console import one_line
from rmreader.reading.doubt import FIRM_REFUSAL, WORTH_SHOWING, Doubt, doubt_of
from rmreader.reading.notebook import html_mark, html_text


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of the passage: ``text == passage[start:end]``."""

    text: str
    start: int
    """First character."""
    end: int
    """After the last character."""
    score: float
    """log p(A), Eq. 6: comparable between the answers to one question."""
    confidence: float
    """The F1 to expect of this answer, calibrated on held-out articles."""
    sentence: str
    """The sentence around it."""
    sentence_start: int
    """Where that sentence begins, in the same characters as ``start``."""

    @property
    def around(self) -> tuple[str, str]:
        """The rest of the sentence: before the answer, and after it."""
        before = self.sentence[: max(0, self.start - self.sentence_start)]
        after = self.sentence[max(0, self.end - self.sentence_start) :]
        return before, after

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``.

        >>> Reader.load().ask("Who wrote it?", "Ada wrote the letter.").best.to_dict()["text"]
        'Ada'
        """
        return {
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "score": self.score,
            "confidence": self.confidence,
            "sentence": self.sentence,
            "sentence_start": self.sentence_start,
        }

    def _repr_html_(self) -> str:
        """The answer with its confidence, and marked in its sentence."""
        before, after = self.around
        sentence = f"{html_text(before)}{html_mark(self.text)}{html_text(after)}"
        confidence = f"<small>({self.confidence:.0%} sure)</small>"
        return f"<strong>{html_text(self.text)}</strong> {confidence}<br>{sentence}"


class AnswerLike(Protocol):
    """An answer, alone or with its place in a document."""

    @property
    def text(self) -> str:
        """The words of the passage."""

    @property
    def confidence(self) -> float:
        """The F1 to expect of it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""


A = TypeVar("A", bound=AnswerLike)


@dataclass(frozen=True, eq=False)
class RankedAnswers(Sequence[A]):
    """Different answers to one question, best first; empty where none is given."""

    answers: tuple[A, ...] = ()
    no_answer: float | None = None
    """The chance that there is no answer; None where the reader cannot tell."""
    guess: A | None = None
    """The best answer, given or not; None where there was nothing to read."""
    absent: bool = False
    """Whether the reader decides that there is no answer; only ``always`` gives answers then."""
    runner_up: A | None = None
    """The second best answer, where the best is given alone and is less than likely."""
    needs: str = ""
    """What the text would have to say for an answer, where there is none."""

    where: ClassVar[str] = "this passage"
    nothing_read: ClassVar[str] = "no answer"

    @overload
    def __getitem__(self, index: int) -> A: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[A, ...]: ...
    def __getitem__(self, index: int | slice) -> A | tuple[A, ...]:
        return self.answers[index]

    def __len__(self) -> int:
        return len(self.answers)

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or answers that hold the same answers."""
        if not isinstance(other, list | tuple | RankedAnswers):
            return NotImplemented
        return self.answers == tuple(other)

    def __hash__(self) -> int:
        return hash(self.answers)

    @property
    def none(self) -> float | None:
        """The same as ``no_answer``."""
        return self.no_answer

    @property
    def best(self) -> A | None:
        """The first answer; None where none is given."""
        return self.answers[0] if self.answers else None

    def doubt(self, answer: A) -> Doubt:
        """How far to believe one of these answers, or the guess: sure, likely or perhaps.

        >>> answers = Reader.load().ask("Who wrote it?", "Ada Lovelace wrote the letter.")
        >>> answers.doubt(answers.best) in ("sure", "likely", "perhaps")
        True
        """
        return doubt_of(answer.confidence, self.no_answer)

    @property
    def perhaps(self) -> bool:
        """Whether no answer is given, but the guess is the better bet: the refusal is half sure."""
        if self.answers or self.guess is None or self.no_answer is None:
            return False
        return self.absent and self.no_answer < FIRM_REFUSAL

    @property
    def refuses(self) -> bool:
        """Whether no answer is given because there is none, and that is more than half sure."""
        return self.absent and not self.answers and self.guess is not None and not self.perhaps

    def at_least(self, confidence: float) -> Self:
        """The answers that are at least this sure.

        >>> answers = Reader.load().ask("Who wrote it?", "Ada Lovelace wrote the letter.")
        >>> len(answers.at_least(0.5)), len(answers.at_least(1.0))
        (1, 0)
        """
        if confidence <= 0:
            return self
        answers = tuple(answer for answer in self.answers if answer.confidence >= confidence)
        return dataclasses.replace(self, answers=answers)

    def with_runner_up(self, candidates: Sequence[A], top: int) -> Self:
        """The same, with the second candidate where the first is less than likely.

        Where more than one is asked for (``top``), the second is among them.
        """
        if top > 1 or len(candidates) < 2 or self.doubt(candidates[0]) != "perhaps":
            return self
        if candidates[1].confidence < WORTH_SHOWING:
            return self
        return dataclasses.replace(self, runner_up=candidates[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``: the same for the command line, HTTP, MCP and files.

        ``no_answer`` is there where the reader can tell, ``guess`` where no answer is given,
        ``needs`` where there is none to give, ``runner_up`` where the only answer given is less
        than likely. Each answer has its ``doubt``.

        >>> answers = Reader.load().ask("Who wrote it?", "Ada Lovelace wrote the letter.")
        >>> answers.to_dict()["answers"][0]["text"]
        'Ada Lovelace'
        """
        tree: dict[str, Any] = {"answers": [self._spell(answer) for answer in self.answers]}
        if self.no_answer is not None:
            tree["no_answer"] = self.no_answer
        if not self.answers and self.guess is not None:
            tree["guess"] = self._spell(self.guess)
        if self.refuses and self.needs:
            tree["needs"] = self.needs
        if self.answers and self.runner_up is not None:
            tree["runner_up"] = self._spell(self.runner_up)
        return tree

    def _spell(self, answer: A) -> dict[str, Any]:
        return answer.to_dict() | {"doubt": self.doubt(answer)}

    def refusal(self) -> str:
        """Why no answer is given, for a person: how sure that is, and the best guess.

        >>> Reader.load().ask("Who paid the bill?", "", always=True).refusal()
        'no answer'
        """
        if self.guess is None:
            return self.nothing_read
        guess = self.describe_guess(self.guess)
        if self.perhaps:
            return f"perhaps: {guess}  ({self.no_answer:.0%} that it is not in {self.where})"
        if self.absent and self.no_answer is not None:
            return f"not in {self.where}  ({self.no_answer:.0%} sure; the best guess: {guess})"
        sure = f"{self.guess.confidence:.0%} sure"
        return f"no answer is sure enough  (the best guess: {guess}, {sure})"

    def refusal_lines(self) -> list[str]:
        """The same in lines: why no answer is given, and what the text would need for one.

        >>> Reader.load().ask("Who paid the bill?", "", always=True).refusal_lines()
        ['no answer']
        """
        lines = [self.refusal()]
        if self.refuses and self.needs:
            lines.append(self.needs)
        return lines

    def describe_guess(self, guess: A) -> str:
        """The best guess on one line."""
        return one_line(guess.text)


class Answers(RankedAnswers[Answer]):
    """The answers to one question, best first; empty where the passage does not say."""

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Answers:
        """The answers that ``to_dict`` spelled.

        >>> answers = Reader.load().ask("Who wrote it?", "Ada Lovelace wrote the letter.")
        >>> Answers.from_dict(answers.to_dict()) == answers
        True
        """
        guess = tree.get("guess")
        runner_up = tree.get("runner_up")
        return cls(
            answers=tuple(_answer_from(answer) for answer in tree["answers"]),
            no_answer=tree.get("no_answer"),
            guess=None if guess is None else _answer_from(guess),
            runner_up=None if runner_up is None else _answer_from(runner_up),
            # A refusal that says what it needs is one that was decided.
            absent="needs" in tree,
            needs=tree.get("needs", ""),
        )

    def select(self, top: int, min_confidence: float = 0.0, always: bool = False) -> Answers:
        """What ``Reader.ask`` gives with these options.

        These answers take it for granted that there is one. Unless ``always`` is set, the chance
        that there is none lowers each confidence.

        >>> answers = Reader.load().ask("Who?", "Ada or Ben wrote it.", top=3, always=True)
        >>> len(answers.select(top=1, always=True))
        1
        """
        answers = self.answers
        if self.runner_up is not None:
            answers = (*answers, self.runner_up)
        # What is given, and at least two: the guess, and the one after it.
        answers = answers[: max(top, 2)]
        if self.no_answer is not None and not always:
            some = 1 - self.no_answer
            answers = tuple(
                dataclasses.replace(answer, confidence=answer.confidence * some)
                for answer in answers
            )
        given = answers[:top] if always or not self.absent else ()
        guess = answers[0] if answers else None
        selected = Answers(given, self.no_answer, guess, self.absent, needs=self.needs)
        return selected.at_least(min_confidence).with_runner_up(answers, top)

    def _repr_html_(self) -> str:
        if not self.answers:
            lines = "<br>".join(html_text(line) for line in self.refusal_lines())
            return f"<p><em>{lines}</em></p>"
        items = "".join(f"<li>{self._item_html(answer)}</li>" for answer in self.answers)
        if self.runner_up is not None:
            items += f"<li><em>or perhaps:</em> {self.runner_up._repr_html_()}</li>"
        return f"<ol>{items}</ol>"

    def _item_html(self, answer: Answer) -> str:
        """An answer with its word of doubt."""
        word = self.doubt(answer)
        prefix = "<em>perhaps:</em> " if word == "perhaps" else ""
        suffix = "" if word == "perhaps" else f"<br><small>{word}</small>"
        return f"{prefix}{answer._repr_html_()}{suffix}"


def _answer_from(tree: Mapping[str, Any]) -> Answer:
    """An answer that ``to_dict`` spelled; older files lack the sentence's start."""
    fields = {"sentence_start": tree["start"]} | dict(tree)
    fields.pop("doubt", None)
    return Answer(**fields)


def text_of(answers: Sequence[Answer]) -> str:
    """The best answer's text as predictions have it: empty where there is no answer."""
    return answers[0].text if answers else ""
