"""Questions made by rule from plain prose, to learn reading from before anybody has asked.

A sentence of one paragraph loses a name, a number, a date or a noun to a question word; the answer
is that expression in *another* paragraph of the same article, which shares at least two more
content words with the sentence. So the question cannot be answered by matching one sentence. Some
are put beside the nearest paragraph without the answer.
"""

import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from rmreader.core.errors import user_error_on
from rmreader.core.files.reading import open_bytes
from rmreader.data.squad import Article, Paragraph, Question, Reference

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
_TOKEN = re.compile(r"\w+(?:[-'’.,]\w+)*")
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = rf"\d{{1,2}} (?:{_MONTH})(?: \d{{4}})?|(?:{_MONTH})(?: \d{{1,2}},)? \d{{4}}"
_DATE = re.compile(rf"\b(?:{_DAY}|1[0-9]\d\d|20[0-2]\d)\b")
_UNIT = "percent|million|billion|thousand|hundred|km|m|miles|feet|years|days"
_NUMBER = re.compile(rf"\b\d[\d,]*(?:\.\d+)?(?: (?:{_UNIT}))?")
_NAME = re.compile(r"\b[A-Z][\w'’-]+(?: (?:of |de |the |von |van |and )?[A-Z][\w'’-]+)*")
_ENDINGS = "tion|ment|ity|ness|ship|ism|ist|er|or|age|ure|ics|ogy|al|ing|s"
_NOUN = re.compile(rf"\b(?:[a-z]{{5,}} )?[a-z]{{6,}}(?:{_ENDINGS})\b")
_STOP = frozenset(
    """
    the a an of in on at to for and or but with by from as is was were are be been being has had
    have it its this that these those he she they his her their which who whom whose when where
    while also not no than then there into after before during between over under about such
    other some any all more most many much very can could would should may might will shall did
    does do one two first second new later well however although because both each only same so
    """.split()  # noqa: SIM905 (read more easily so)
)
_PREPOSITION = frozenset(
    "in on at by from to of for with into during near after before since".split()  # noqa: SIM905
)
_PLACE = frozenset("in at near to from".split())  # noqa: SIM905
_PATTERNS = {
    "date": _DATE,
    "number": _NUMBER,
    "name": _NAME,
    "noun": _NOUN,
}
_BREAKS = (", ", "; ", " – ", " (")  # where a long sentence may be cut

Candidate = tuple[str, int, int]
"""An expression of a sentence: what kind, and where it begins and ends."""


def content(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    words = _TOKEN.findall(text.lower())
    return frozenset(word for word in words if len(word) > 2 and word not in _STOP)


def candidates(sentence: str) -> Iterator[Candidate]:
    """Expressions of a sentence that may be asked for; none overlaps one before it."""
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(sentence):
            if kind == "name" and _is_no_name(match.group(), match.start()):
                continue
            begin, end = match.span()
            if match.group().endswith(("'s", "’s")):
                end -= 2
            is_free = all(
                end <= other_begin or begin >= other_end for other_begin, other_end in taken
            )
            if end - begin > 2 and is_free:
                taken.append((begin, end))
                yield kind, begin, end


def _is_no_name(text: str, begin: int) -> bool:
    """Whether a capital says nothing: at the beginning of a sentence, or of a common word."""
    if " " in text:
        return begin == 0 and text.lower() in _STOP
    return begin == 0 or text.lower() in _STOP


def asked(kind: str, before: str, after: str, draw: np.random.Generator) -> str:
    """Write the sentence with a question word in place of what is asked for.

    The word stays there or, more often, moves to the front.
    """
    head, _, last = before.rpartition(" ")
    after = after.rstrip(" .!?;:,")
    word = _question_word(kind, last.lower() in _PLACE, draw)
    if draw.random() < 0.3 or not before:
        return _question(before, word, after)
    if before.split(" ", 1)[0].lower() in _STOP:
        # It is no longer the first word.
        before = before[:1].lower() + before[1:]
        head = head[:1].lower() + head[1:]
    if last.lower() in _PREPOSITION:
        preposition = "" if word in ("when", "where") else last
        return _question(preposition, word, head, after)
    if after and draw.random() < 0.5:
        return _question(word, after + ",", before)
    return _question(word, before, after)


def _question_word(kind: str, after_place: bool, draw: np.random.Generator) -> str:
    """Draw a question word for an expression."""
    choices: dict[str, tuple[str, ...]] = {
        "date": ("when", "what year", "what date", "which year"),
        "number": ("how many", "how much", "what number"),
        "name": ("who", "what", "which", "who"),
        "noun": ("what", "which", "what kind"),
    }
    if after_place:
        choices["name"] = ("where", "what", "which")
    return str(draw.choice(choices[kind]))


def _question(*parts: str) -> str:
    """Join parts to a question with a capital and a question mark."""
    text = " ".join(" ".join(parts).split()).strip(" .!?;:,")
    return text[:1].upper() + text[1:] + "?"


def clause(sentence: str, begin: int, end: int, reach: int = 90) -> tuple[str, str]:
    """What is around an expression, cut at commas and semicolons where it is long."""
    before = sentence[:begin].strip()
    if len(before) > reach:
        cut = max(before.rfind(mark, 0, len(before) - reach // 3) for mark in _BREAKS)
        if cut >= 0:
            before = before[cut + 2 :]
        else:
            before = before[-reach:].split(" ", 1)[-1]
    after = sentence[end:].strip()
    if len(after) > reach:
        cuts = [after.find(mark, reach // 3) for mark in _BREAKS]
        cuts = [cut for cut in cuts if cut >= 0]
        if cuts:
            after = after[: min(cuts)]
        else:
            after = after[:reach].rsplit(" ", 1)[0]
    return before.strip(" ,;"), after.strip(" ,;")


def cloze_article(
    title: str,
    texts: Iterable[str],
    seed: int,
    per_thousand: float = 30,
    unanswered: float = 0.1,
) -> Article:
    """Give an article's paragraphs questions, at most so many per thousand words.

    ``unanswered``: how often a question is put, if it can be, to a paragraph that does not hold its
    answer.
    """
    draw = np.random.default_rng((seed, zlib.crc32(title.encode("utf-8", "replace"))))
    article = _Article(texts)
    questions: list[list[Question]] = [[] for _ in article.texts]
    for number, paragraph in enumerate(article.texts):
        room = per_thousand / 1000 * len(paragraph.split())
        wanted = int(room) + int(draw.random() < room % 1)
        expressions = _expressions(paragraph)
        for place in draw.permutation(len(expressions)).tolist():
            if wanted <= 0:
                break
            sentence, (kind, begin, end) = expressions[place]
            if kind == "noun" and draw.random() < 0.5:
                continue
            answer = sentence[begin:end]
            before, after = clause(sentence, begin, end)
            clues = content(f"{before} {after}") - content(answer)
            without = bool(draw.random() < unanswered)
            put = article.place(number, answer, clues, without)
            if put is not None:
                other, references = put
                question = Question(
                    f"{title}-{number}-{place}",
                    asked(kind, before, after, draw),
                    references,
                    impossible=not references,
                )
                questions[other].append(question)
                wanted -= 1

    paragraphs = []
    for text, made in zip(article.texts, questions, strict=True):
        if made:
            paragraphs.append(Paragraph(text, tuple(made)))
    return Article(title, tuple(paragraphs))


def _expressions(paragraph: str) -> list[tuple[str, Candidate]]:
    """What may be asked for in a paragraph, each with its sentence."""
    expressions = []
    for sentence in _SENTENCE.split(paragraph):
        if 40 < len(sentence) < 400:
            for candidate in candidates(sentence):
                expressions.append((sentence, candidate))
    return expressions


class _Article:
    """Paragraphs, the content words of each, and which of them hold each such word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)
        self.contents = [content(text) for text in self.texts]
        self.holding: defaultdict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self.contents):
            for word in words:
                self.holding[word].append(number)

    def place(
        self,
        number: int,
        answer: str,
        clues: frozenset[str],
        without: bool,
    ) -> tuple[int, tuple[Reference, ...]] | None:
        """Find the other paragraph that shares the rarest clues, and the answer there.

        It shares at least two. ``without`` finds one that does not hold the answer.
        """
        pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
        for other in self._nearest(number, clues):
            if len(clues & self.contents[other]) < 2:
                continue
            text = self.texts[other]
            places = [match.start() for match in pattern.finditer(text)]
            if without and not places:
                return other, ()
            if places and not without:
                # Of several places, the first of those with the most clues around it.
                around = [len(clues & content(text[max(0, at - 150) : at + 150])) for at in places]
                best = places[around.index(max(around))]
                return other, (Reference(answer, best),)
        return None

    def _nearest(self, number: int, clues: frozenset[str]) -> list[int]:
        """The other paragraphs that share the rarest clues, twelve at most."""
        shared: defaultdict[int, float] = defaultdict(float)
        # Sorted, so that sums, and with them ties, are the same in every process.
        for word in sorted(clues):
            for other in self.holding.get(word, ()):
                if other != number:
                    shared[other] += len(self.holding[word]) ** -0.5
        return sorted(shared, key=lambda other: -shared[other])[:12]


def read_articles(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Articles of a prose file: a line ``= Title =``, then one paragraph per line."""
    title = ""
    texts: list[str] = []
    for line in lines:
        line = line.strip()
        if line.startswith("= ") and line.endswith(" =") and len(line) < 200:
            if texts:
                yield title, texts
            title = line[2:-2]
            texts = []
        elif line:
            texts.append(line)
    if texts:
        yield title, texts


def cloze_files(
    paths: Sequence[Path],
    seed: int = 1,
    per_thousand: float = 30,
    workers: int = 1,
) -> list[Article]:
    """All articles of prose files with their questions, in order, by several processes.

    Files are ``.bz2``, ``.gz`` or plain.
    """
    jobs = []
    for path in paths:
        for title, texts in read_articles(read_lines(path)):
            jobs.append((title, texts, seed, per_thousand))
    if workers <= 1:
        return [cloze_article(*job) for job in jobs]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(cloze_article, *zip(*jobs, strict=True), chunksize=16))


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file of prose."""
    sentence = f"{path}: cannot be read as text ({{why}}); give UTF-8 prose, plain, .gz or .bz2."
    with (
        user_error_on(sentence, OSError, UnicodeDecodeError),
        io.TextIOWrapper(open_bytes(path), encoding="utf-8") as file,
    ):
        yield from file
