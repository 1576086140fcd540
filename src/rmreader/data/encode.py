"""A SQuAD file as token ids: encoded once in parallel, kept on disk by content, memory-mapped ever after."""

import hashlib
import os
import signal
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.console import progress
from rmreader.core.cores import cores
from rmreader.core.errors import user_error_on
from rmreader.core.files.cache import cache_folder
from rmreader.core.files.manifest import file_sha256
from rmreader.core.processes import end_with
from rmreader.data.encoded import Encoded
from rmreader.data.examples import read_data
from rmreader.data.squad import Paragraph, Problem, Question, Reference
from rmreader.data.store import Arrays, bounds_of, cached, text_arrays
from rmreader.data.tables import is_table, kind_of
from rmreader.text.tokens import RULE, Tokens, tokenize

_FORMAT = 2
_TABLES = 1  # how rows of a table become questions
_CHUNK = 400  # paragraphs per task

_Chunk = list[tuple[int, int, Paragraph]]  # paragraphs, each with the numbers of its passage, in the chunk, and article
_Encoding = tuple[list[str], dict[str, NDArray[Any]]]  # vocabulary and arrays


def encode_pairs(pairs: Sequence[tuple[str, str]]) -> Encoded:
    """Encode (question, passage) pairs in memory; a passage that comes again is read once. Texts may be empty."""
    places: dict[str, int] = {}
    chunk: _Chunk = []
    for number, (question, passage) in enumerate(pairs):
        paragraph = Paragraph(passage, (Question(str(number), question, ()),))
        chunk.append((places.setdefault(passage, len(places)), 0, paragraph))
    vocabulary, arrays = _encode_chunk(chunk)
    arrays |= _texts(list(places), [question for *_, paragraph in chunk for question in paragraph.questions])
    return Encoded(vocabulary, arrays, np.arange(len(pairs), dtype=np.int64))


def encode_file(path: str | Path, cache_dir: str | Path | None = None, workers: int | None = None) -> Encoded:
    """Encode a data file, or open what was encoded before from the same content.

    The cache is ``cache_dir``, else ``$RMREADER_CACHE``, else ``~/.cache/rmreader``. A damaged entry is made anew.
    """
    path = Path(path)
    with user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError):
        content = file_sha256(path)
    kind = f" {kind_of(path)} {_TABLES}" if is_table(path) else ""
    digest = hashlib.sha256(f"{content} {_FORMAT} {RULE} True{kind}".encode())  # True: rows without answers are bad
    folder = cache_folder("encoded", cache_dir) / digest.hexdigest()[:32]
    return _view(path, *cached(folder, lambda: _encode(path, workers), "encoding"))


def _view(path: Path, arrays: Arrays, about: dict[str, Any]) -> Encoded:
    """What the arrays of one whole file say."""
    words = arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass")
    named = [tuple(Problem(str(path), *one) for one in about.get(kind, ())) for kind in ("problems", "ambiguous")]
    rows = np.arange(len(arrays["paragraph"]), dtype=np.int64)
    return Encoded(words.split("\n") if about["words"] else [], arrays, rows, *named)


def _encode(path: Path, workers: int | None) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read, tokenise in chunks (in parallel where there are several), and join the parts."""
    dataset = read_data(path)
    every = [(number, p) for number, article in enumerate(dataset.articles) for p in article.paragraphs]
    paragraphs = [(place % _CHUNK, *one) for place, one in enumerate(every)]
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
    arrays |= _texts((p.context for _, p in every), [question for _, question in dataset.questions()])
    arrays["vocabulary"] = np.frombuffer("\n".join(vocabulary).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    about: dict[str, Any] = {"words": len(vocabulary)}
    for name, rows in (("problems", dataset.problems), ("ambiguous", dataset.ambiguous)):
        about[name] = [(p.article, p.paragraph, p.id, p.what, p.row) for p in rows]
    return arrays, about


def _texts(passages: Iterable[str], questions: Sequence[Question]) -> dict[str, NDArray[Any]]:
    """The texts themselves, and how many answers each question has."""
    answers = (answer.text for question in questions for answer in question.answers)
    arrays = text_arrays("passages", passages) | text_arrays("answers", answers)
    arrays |= text_arrays("questions", (question.text for question in questions))
    arrays |= text_arrays("names", (question.id for question in questions))
    return arrays | {"answer_bounds": bounds_of([len(question.answers) for question in questions])}


@contextmanager
def _encoded_chunks(chunks: list[_Chunk], workers: int | None) -> Iterator[Iterator[_Encoding]]:
    """The chunks' encodings in order, by several processes where that pays.

    Processes are forked before the progress bar starts its thread. Only Linux forks safely; elsewhere new processes
    would run the caller's script again, and one is quick enough.
    """
    workers = min(cores() if workers is None else workers, len(chunks), 16)
    if workers < 2 or len(chunks) < 8 or sys.platform != "linux":
        yield map(_encode_chunk, chunks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    fork = multiprocessing.get_context("fork")
    until = os.getpid(), signal.SIGKILL  # else they would wait for its word for ever, should it be killed
    with ProcessPoolExecutor(workers, mp_context=fork, initializer=end_with, initargs=until) as executor:
        yield executor.map(_encode_chunk, chunks)


def _encode_chunk(paragraphs: _Chunk) -> _Encoding:
    """Vocabulary, by first appearance, and arrays of some paragraphs; one whose passage was there is not read again."""
    index: defaultdict[str, int] = defaultdict(count(1).__next__)
    tokens = {"context": array("i"), "question": array("i")}
    lengths: dict[str, list[int]] = {"context": [], "question": []}
    starts, ends = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int32)]
    rows: list[tuple[int, int, int, int]] = []

    def add(kind: str, text: str) -> Tokens:
        found = tokenize(text)
        tokens[kind].extend(map(index.__getitem__, found.words))
        lengths[kind].append(len(found))
        return found

    for place, article, paragraph in paragraphs:
        if place == len(lengths["context"]):
            passage = add("context", paragraph.context)
            starts.append(passage.starts)
            ends.append(passage.ends)
        bounds = starts[place + 1].tolist(), ends[place + 1].tolist()
        for question in paragraph.questions:
            add("question", question.text)
            rows.append((place, article, *answer_span(*bounds, question.answers)))
    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    arrays: dict[str, NDArray[Any]] = dict(zip(("paragraph", "article", "start", "end"), columns, strict=True))
    for kind, ids in tokens.items():
        arrays[f"{kind}_tokens"], arrays[f"{kind}_bounds"] = np.array(ids, dtype=np.int32), bounds_of(lengths[kind])
    return list(index), arrays | {"starts": np.concatenate(starts), "ends": np.concatenate(ends)}


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
