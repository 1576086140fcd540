"""Questions made by rule from plain prose, to learn reading from before any person has asked
anything.

A sentence of one paragraph loses a name, a number, a date or a noun to a question word; the answer
is that expression in *another* paragraph of the same article, which shares at least two more
content words with the sentence. So the question cannot be answered by matching one sentence. Some
are put beside the nearest paragraph without the answer.
"""

import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_NOUN = re.compile(
    r"\b(?:[a-z]{5,} )?[a-z]{6,}(?:tion|ment|ity|ness|ship|ism|ist|er|or|age|ure|ics|ogy|al|ing|s)\b"
)
_STOP = frozenset(
    """the a an of in on at to for and or but with by from as is was were are be been being has had have it its this
    that these those he she they his her their which who whom whose when where while also not no than then there into
    after before during between over under about such other some any all more most many much very can could would
    should may might will shall did does do one two first second new later well however although because both each
    only same so""".split()  # noqa: SIM905 (read more easily so)
)
_PREPOSITION = frozenset(
    (
        "in",
        "on",
        "at",
        "by",
        "from",
        "to",
        "of",
        "for",
        "with",
        "into",
        "during",
        "near",
        "after",
        "before",
        "since",
    )
)
_PLACE = frozenset(("in", "at", "near", "to", "from"))


def content(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    return frozenset(
        word for word in _TOKEN.findall(text.lower()) if len(word) > 2 and word not in _STOP
    )


def candidates(sentence: str) -> Iterator[tuple[str, int, int]]:
    """Expressions of a sentence that may be asked for: what kind, and where."""
    taken: list[tuple[int, int]] = []
    for kind, pattern in (("date", _DATE), ("number", _NUMBER), ("name", _NAME), ("noun", _NOUN)):
        for found in pattern.finditer(sentence):
            begin, end = found.span()
            end -= 2 * found.group().endswith(("'s", "’s"))
            if (
                kind == "name"
                and (begin == 0 or " " not in found.group())
                and found.group().lower() in _STOP
            ):
                continue
            if (
                kind == "name" and begin == 0 and " " not in found.group()
            ):  # a capital that says nothing
                continue
            if end - begin > 2 and all(end <= a or begin >= b for a, b in taken):
                taken.append((begin, end))
                yield kind, begin, end


def asked(kind: str, before: str, after: str, draw: np.random.Generator) -> str:
    """The sentence with a question word in place of what is asked for, there or, more often,
    moved to the front."""
    head, _, last = before.rpartition(" ")
    after = after.rstrip(" .!?;:,")
    names = (
        ("where", "what", "which") if last.lower() in _PLACE else ("who", "what", "which", "who")
    )
    choices: Mapping[str, tuple[str, ...]] = {
        "date": ("when", "what year", "what date", "which year"),
        "number": ("how many", "how much", "what number"),
        "name": names,
        "noun": ("what", "which", "what kind"),
    }
    word = str(draw.choice(choices[kind]))
    if draw.random() < 0.3 or not before:
        return _question(before, word, after)
    if before.split(" ", 1)[0].lower() in _STOP:  # no longer the first word
        before, head = (text[:1].lower() + text[1:] for text in (before, head))
    if last.lower() in _PREPOSITION:
        return _question("" if word in ("when", "where") else last, word, head, after)
    return (
        _question(word, after + ",", before)
        if after and draw.random() < 0.5
        else _question(word, before, after)
    )


def _question(*parts: str) -> str:
    text = " ".join(" ".join(parts).split()).strip(" .!?;:,")
    return text[:1].upper() + text[1:] + "?"


def clause(sentence: str, begin: int, end: int, reach: int = 90) -> tuple[str, str]:
    """What is around an expression, cut at commas and semicolons where it is long."""
    before, after = sentence[:begin].strip(), sentence[end:].strip()
    if len(before) > reach:
        cut = max(
            before.rfind(mark, 0, len(before) - reach // 3) for mark in (", ", "; ", " – ", " (")
        )
        before = before[cut + 2 :] if cut >= 0 else before[-reach:].split(" ", 1)[-1]
    if len(after) > reach:
        places = [
            at for mark in (", ", "; ", " – ", " (") if (at := after.find(mark, reach // 3)) >= 0
        ]
        after = after[: min(places)] if places else after[:reach].rsplit(" ", 1)[0]
    return before.strip(" ,;"), after.strip(" ,;") if not after.startswith(",") else after[
        1:
    ].strip(" ,;")


def cloze_article(
    title: str, texts: Iterable[str], seed: int, per_thousand: float = 30, unanswered: float = 0.1
) -> Article:
    """The article's paragraphs with the questions that could be made for them, at most so many per
    thousand words.

    ``unanswered``: how often a question is put, if it can be, to a paragraph that does not hold its
    answer.
    """
    draw = np.random.default_rng((seed, zlib.crc32(title.encode("utf-8", "replace"))))
    article = _Article(texts)
    questions: list[list[Question]] = [[] for _ in article.texts]
    for number, paragraph in enumerate(article.texts):
        room = per_thousand / 1000 * len(paragraph.split())
        wanted = int(room) + int(draw.random() < room % 1)
        sentences = [
            sentence for sentence in _SENTENCE.split(paragraph) if 40 < len(sentence) < 400
        ]
        found = [(sentence, one) for sentence in sentences for one in candidates(sentence)]
        for place in draw.permutation(len(found)).tolist():
            if wanted <= 0:
                break
            sentence, (kind, begin, end) = found[place]
            if kind == "noun" and draw.random() < 0.5:
                continue
            before, after = clause(sentence, begin, end)
            clues = content(f"{before} {after}") - content(sentence[begin:end])
            put = article.place(
                number, sentence[begin:end], clues, bool(draw.random() < unanswered)
            )
            if put is not None:
                name, text = f"{title}-{number}-{place}", asked(kind, before, after, draw)
                questions[put[0]].append(Question(name, text, put[1], impossible=not put[1]))
                wanted -= 1
    kept = zip(article.texts, questions, strict=True)
    return Article(title, tuple(Paragraph(text, tuple(some)) for text, some in kept if some))


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
        self, number: int, answer: str, clues: frozenset[str], none: bool
    ) -> tuple[int, tuple[Reference, ...]] | None:
        """The other paragraph that shares the rarest clues, at least two, and the answer there;
        or one without it."""
        shared: defaultdict[int, float] = defaultdict(float)
        for word in sorted(
            clues
        ):  # so that sums, and with them ties, are the same in every process
            for other in self.holding.get(word, ()):
                if other != number:
                    shared[other] += len(self.holding[word]) ** -0.5
        pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
        for other in sorted(shared, key=lambda one: -shared[one])[:12]:
            text = self.texts[other]
            if len(clues & self.contents[other]) >= 2:
                places = [found.start() for found in pattern.finditer(text)]
                if none and not places:
                    return other, ()
                if places and not none:
                    around = [
                        len(clues & content(text[max(0, at - 150) : at + 150])) for at in places
                    ]
                    return other, (Reference(answer, places[around.index(max(around))]),)
        return None


def read_articles(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Articles of a prose file: a line ``= Title =``, then one paragraph per line."""
    title, texts = "", list[str]()
    for line in lines:
        line = line.strip()
        if line.startswith("= ") and line.endswith(" =") and len(line) < 200:
            if texts:
                yield title, texts
            title, texts = line[2:-2], []
        elif line:
            texts.append(line)
    if texts:
        yield title, texts


def cloze_files(
    paths: Sequence[Path], seed: int = 1, per_thousand: float = 30, workers: int = 1
) -> list[Article]:
    """All articles of prose files (``.bz2``, ``.gz`` or plain) with their questions, in order,
    by several processes."""
    jobs = [
        (title, texts, seed, per_thousand)
        for path in paths
        for title, texts in read_articles(read_lines(path))
    ]
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
