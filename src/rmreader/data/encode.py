"""A SQuAD file as token ids: encoded once in parallel, kept on disk by content, memory-mapped ever after."""

import hashlib
import os
import signal
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.console import progress
from rmreader.cores import cores
from rmreader.data.encoded import Encoded
from rmreader.data.examples import read_data
from rmreader.data.squad import Paragraph, Problem, Reference, read_squad
from rmreader.data.store import Arrays, Texts, bounds_of, kept
from rmreader.data.tables import is_table, kind_of
from rmreader.errors import explained
from rmreader.files import cache_folder, file_sha256
from rmreader.orphans import end_with
from rmreader.text.tokens import RULE, Tokens, tokenize

_FORMAT = 2
_TABLES = 1  # how rows of a table become questions
_CHUNK = 400  # paragraphs per task

_Chunk = list[tuple[int, Paragraph]]  # paragraphs, each with the number of its article
_Encoding = tuple[list[str], dict[str, NDArray[Any]]]  # vocabulary and arrays


def encode_pairs(pairs: Sequence[tuple[str, str]]) -> Encoded:
    """Encode (question, passage) pairs in memory; a passage that comes again is read once. Texts may be empty."""
    part = _Part()
    places: dict[str, int] = {}
    for question, passage in pairs:
        if passage not in places:
            places[passage] = len(places)
            part.add_passage(passage)
        part.add_question(question, places[passage])
    arrays = part.arrays()
    nothing = np.full(len(pairs), -1, dtype=np.int32)
    arrays |= {"article": np.zeros(len(pairs), dtype=np.int32), "start": nothing, "end": nothing}
    arrays["answer_bounds"] = np.zeros(len(pairs) + 1, dtype=np.int64)
    names = [str(number) for number in range(len(pairs))]
    return Encoded(
        list(part.index), arrays, [q for q, _ in pairs], list(places), names, [], np.arange(len(pairs), dtype=np.int64)
    )


def encode_file(
    path: str | Path,
    cache_dir: str | Path | None = None,
    workers: int | None = None,
    *,
    strict: bool = False,
    answers_needed: bool = True,
) -> Encoded:
    """Encode a data file, or open what was encoded before from the same content (see ``read_squad`` for the last two).

    The cache is ``cache_dir``, else ``$RMREADER_CACHE``, else ``~/.cache/rmreader``. A damaged entry is made anew.
    """
    path = Path(path)
    folder = _cache_folder(path, cache_dir, answers_needed)
    encoded = _view(path, *kept(folder, lambda: _encode(path, workers, answers_needed), "encoding"))
    if strict and encoded.problems:
        raise encoded.problems[0].error()
    return encoded


def _cache_folder(path: Path, cache_dir: str | Path | None, answers_needed: bool) -> Path:
    with explained(f"{path}: cannot be read ({{why}}); check the path.", OSError):
        content = file_sha256(path)
    kind = f" {kind_of(path)} {_TABLES}" if is_table(path) else ""
    digest = hashlib.sha256(f"{content} {_FORMAT} {RULE} {answers_needed}{kind}".encode())
    return cache_folder("encoded", cache_dir) / digest.hexdigest()[:32]


def _view(path: Path, arrays: Arrays, about: dict[str, Any]) -> Encoded:
    """What the arrays of one whole file say."""
    return Encoded(
        vocabulary=arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass").split("\n")
        if about["words"]
        else [],
        arrays=arrays,
        **{
            name: Texts(arrays[name], arrays[f"{name}_places"])
            for name in ("questions", "passages", "names", "answers")
        },
        rows=np.arange(len(arrays["paragraph"]), dtype=np.int64),
        problems=tuple(Problem(str(path), *fields) for fields in about["problems"]),
        ambiguous=tuple(Problem(str(path), *fields) for fields in about.get("ambiguous", ())),
    )


def _encode(path: Path, workers: int | None, answers_needed: bool) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read, tokenise in chunks (in parallel where there are several), and join the parts."""
    dataset = read_data(path) if is_table(path) else read_squad(path, answers_needed=answers_needed)
    paragraphs = [(number, p) for number, article in enumerate(dataset.articles) for p in article.paragraphs]
    chunks = [paragraphs[k : k + _CHUNK] for k in range(0, len(paragraphs), _CHUNK)]
    parts: list[_Encoding] = []
    with (
        _encoded_chunks(chunks, workers) as encodings,
        progress(f"Encoding {path.name}", len(paragraphs), "passages") as advance,
    ):
        for chunk, part in zip(chunks, encodings, strict=True):
            parts.append(part)
            advance(len(chunk))
    vocabulary, arrays = _join(parts)
    questions = [question for _, question in dataset.questions()]
    texts = {
        "questions": Texts.of([question.text for question in questions]),
        "passages": Texts.of([paragraph.context for _, paragraph in paragraphs]),
        "names": Texts.of([question.id for question in questions]),
        "answers": Texts.of([answer.text for question in questions for answer in question.answers]),
    }
    for name, text in texts.items():
        arrays[name], arrays[f"{name}_places"] = text.content, text.bounds
    arrays["answer_bounds"] = bounds_of([len(question.answers) for question in questions])
    arrays["vocabulary"] = np.frombuffer("\n".join(vocabulary).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    about: dict[str, Any] = {"words": len(vocabulary)}
    for name, rows in (("problems", dataset.problems), ("ambiguous", dataset.ambiguous)):
        about[name] = [(p.article, p.paragraph, p.id, p.what, p.row) for p in rows]
    return arrays, about


@contextmanager
def _encoded_chunks(chunks: list[_Chunk], workers: int | None) -> Iterator[Iterator[_Encoding]]:
    """The chunks' encodings in order, by several processes where that pays.

    Processes are forked, so that they have the chunks without a copy, before the progress bar starts its thread. Only
    Linux forks safely; elsewhere new processes would run the caller's script again, and one is quick enough.
    """
    if workers is None:
        workers = cores()
    workers = min(workers, len(chunks), 16)
    if workers < 2 or len(chunks) < 8 or sys.platform != "linux":
        yield map(_encode_chunk, chunks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    fork, given = multiprocessing.get_context("fork"), (chunks, os.getpid())
    with ProcessPoolExecutor(workers, mp_context=fork, initializer=_inherit, initargs=given) as executor:
        yield executor.map(_encode_inherited, range(len(chunks)))


_inherited: list[_Chunk] = []  # in a worker process: what it has from its parent


def _inherit(chunks: list[_Chunk], parent: int) -> None:
    end_with(parent, signal.SIGKILL)  # else they would wait for its word for ever, should it be killed
    _inherited.extend(chunks)


def _encode_inherited(number: int) -> _Encoding:
    return _encode_chunk(_inherited[number])


class _Part:
    """Token ids of some passages and questions, numbered by first appearance."""

    def __init__(self) -> None:
        self.index: defaultdict[str, int] = defaultdict(count(1).__next__)
        self.context_tokens, self.question_tokens = array("i"), array("i")
        self.context_lengths: list[int] = []
        self.question_lengths: list[int] = []
        self.starts: list[NDArray[np.int32]] = []
        self.ends: list[NDArray[np.int32]] = []
        self.paragraph: list[int] = []

    def add_passage(self, text: str) -> Tokens:
        tokens = tokenize(text)
        self.context_tokens.extend(map(self.index.__getitem__, tokens.words))
        self.context_lengths.append(len(tokens))
        self.starts.append(tokens.starts)
        self.ends.append(tokens.ends)
        return tokens

    def add_question(self, text: str, paragraph: int) -> None:
        words = tokenize(text).words
        self.question_tokens.extend(map(self.index.__getitem__, words))
        self.question_lengths.append(len(words))
        self.paragraph.append(paragraph)

    def arrays(self) -> dict[str, NDArray[Any]]:
        nothing = [np.empty(0, dtype=np.int32)]
        return {
            "context_tokens": np.array(self.context_tokens, dtype=np.int32),
            "context_bounds": bounds_of(self.context_lengths),
            "starts": np.concatenate(self.starts or nothing),
            "ends": np.concatenate(self.ends or nothing),
            "question_tokens": np.array(self.question_tokens, dtype=np.int32),
            "question_bounds": bounds_of(self.question_lengths),
            "paragraph": np.array(self.paragraph, dtype=np.int32),
        }


def _encode_chunk(paragraphs: _Chunk) -> _Encoding:
    """Vocabulary and arrays of some paragraphs, each with the number of its article."""
    part = _Part()
    articles: list[int] = []
    answers: list[tuple[int, int]] = []
    for place, (article, paragraph) in enumerate(paragraphs):
        tokens = part.add_passage(paragraph.context)
        starts, ends = tokens.starts.tolist(), tokens.ends.tolist()
        for question in paragraph.questions:
            part.add_question(question.text, place)
            articles.append(article)
            answers.append(answer_span(starts, ends, question.answers))
    arrays = part.arrays()
    arrays["article"] = np.array(articles, dtype=np.int32)
    arrays["start"], arrays["end"] = np.array(answers, dtype=np.int32).reshape(-1, 2).T
    return list(part.index), arrays


def answer_span(starts: Sequence[int], ends: Sequence[int], answers: Sequence[Reference]) -> tuple[int, int]:
    """First and last token of the first answer on token boundaries, else of the tokens that cover the first answer."""
    covering = (-1, -1)
    for answer in answers:
        begin = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = answer.start + len(answer.text.rstrip())
        first, last = bisect_right(ends, begin), bisect_left(starts, end) - 1
        if starts[first] == begin and ends[last] == end:
            return first, last
        if covering == (-1, -1):
            covering = first, last
    return covering


def _join(parts: list[_Encoding]) -> _Encoding:
    """One vocabulary and one set of arrays; the same whatever way the work was divided."""
    index: defaultdict[str, int] = defaultdict(count(1).__next__)
    joined: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
    passages = 0
    for vocabulary, arrays in parts or [_encode_chunk([])]:
        numbers = np.array([0, *map(index.__getitem__, vocabulary)], dtype=np.int32)
        for name, values in arrays.items():
            if name.endswith("_tokens"):
                values = numbers[values]
            elif name.endswith("_bounds"):
                values = np.diff(values)
            elif name == "paragraph":
                values = values + np.int32(passages)
            joined[name].append(values)
        passages += len(arrays["context_bounds"]) - 1
    whole = {name: np.concatenate(values) for name, values in joined.items()}
    return list(index), {n: bounds_of(v) if n.endswith("_bounds") else v for n, v in whole.items()}
