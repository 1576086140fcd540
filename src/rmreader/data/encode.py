"""A data file as token ids: encoded once in parallel, cached on disk by content, memory-mapped."""

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
_FEWEST_CHUNKS = 8  # below this, starting processes costs more than it saves

NamedArrays = dict[str, NDArray[Any]]

# Paragraphs, each with the number of its passage in the chunk and that of its article.
_Chunk = list[tuple[int, int, Paragraph]]
# Vocabulary and arrays.
_Encoding = tuple[list[str], NamedArrays]


def encode_pairs(pairs: Sequence[tuple[str, str]]) -> Encoded:
    """Encode (question, passage) pairs in memory. Texts may be empty.

    A passage that comes again is read once.
    """
    places: dict[str, int] = {}
    chunk: _Chunk = []
    questions = []
    for number, (text, passage) in enumerate(pairs):
        question = Question(str(number), text, ())
        questions.append(question)
        place = places.setdefault(passage, len(places))
        chunk.append((place, 0, Paragraph(passage, (question,))))
    vocabulary, arrays = _encode_chunk(chunk)
    arrays |= _texts(list(places), questions)
    return Encoded(vocabulary, arrays, np.arange(len(pairs), dtype=np.int64))


def encode_file(
    path: str | Path,
    cache_dir: str | Path | None = None,
    workers: int | None = None,
) -> Encoded:
    """Encode a data file, or open what was encoded before from the same content.

    The cache is ``cache_dir``, else ``$RMREADER_CACHE``, else ``~/.cache/rmreader``. A damaged
    entry is made again.
    """
    path = Path(path)
    with user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError):
        content = file_sha256(path)
    # "True" was once a setting; it stays, so that caches of earlier versions are still found.
    key = f"{content} {_FORMAT} {RULE} True"
    if is_table(path):
        key += f" {kind_of(path)} {_TABLES}"
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    folder = cache_folder("encoded", cache_dir) / name
    arrays, about = cached(folder, lambda: _encode(path, workers), "encoding")
    return _view(path, arrays, about)


def _view(path: Path, arrays: Arrays, about: dict[str, Any]) -> Encoded:
    """Return the view of all questions of one file."""
    words = arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass")
    return Encoded(
        vocabulary=words.split("\n") if about["words"] else [],
        arrays=arrays,
        rows=np.arange(len(arrays["paragraph"]), dtype=np.int64),
        problems=tuple(Problem(str(path), *row) for row in about.get("problems", ())),
        ambiguous=tuple(Problem(str(path), *row) for row in about.get("ambiguous", ())),
    )


def _encode(path: Path, workers: int | None) -> tuple[NamedArrays, dict[str, Any]]:
    """Read, tokenise in chunks (in parallel where there are several), and join the parts."""
    dataset = read_data(path)
    paragraphs: _Chunk = []
    for number, article in enumerate(dataset.articles):
        for paragraph in article.paragraphs:
            place = len(paragraphs) % _CHUNK
            paragraphs.append((place, number, paragraph))
    chunks = []
    for begin in range(0, len(paragraphs), _CHUNK):
        chunks.append(paragraphs[begin : begin + _CHUNK])
    parts: list[_Encoding] = []
    with (
        _encoded_chunks(chunks, workers) as encodings,
        progress(f"Encoding {path.name}", len(paragraphs), "passages") as advance,
    ):
        for chunk, part in zip(chunks, encodings, strict=True):
            parts.append(part)
            advance(len(chunk))

    vocabulary, arrays = _join(parts)
    passages = [paragraph.context for *_, paragraph in paragraphs]
    arrays |= _texts(passages, [question for _, question in dataset.questions()])
    words = "\n".join(vocabulary).encode("utf-8", "surrogatepass")
    arrays["vocabulary"] = np.frombuffer(words, dtype=np.uint8)
    about = {
        "words": len(vocabulary),
        "problems": [_problem_row(problem) for problem in dataset.problems],
        "ambiguous": [_problem_row(problem) for problem in dataset.ambiguous],
    }
    return arrays, about


def _problem_row(problem: Problem) -> tuple[Any, ...]:
    """Return a problem without its file, whose name may be another one next time."""
    return (
        problem.article,
        problem.paragraph,
        problem.id,
        problem.what,
        problem.row,
    )


def _texts(passages: Iterable[str], questions: Sequence[Question]) -> NamedArrays:
    """Return the texts themselves, and how many answers each question has."""
    answers = []
    for question in questions:
        answers += [answer.text for answer in question.answers]
    arrays = {
        **text_arrays("passages", passages),
        **text_arrays("answers", answers),
        **text_arrays("questions", [question.text for question in questions]),
        **text_arrays("names", [question.id for question in questions]),
    }
    arrays["answer_bounds"] = bounds_of([len(question.answers) for question in questions])
    return arrays


@contextmanager
def _encoded_chunks(chunks: list[_Chunk], workers: int | None) -> Iterator[Iterator[_Encoding]]:
    """Encode the chunks in order, in several processes where that pays.

    Processes are forked before the progress bar starts its thread. Only Linux forks safely;
    elsewhere new processes would run the caller's script again, and one is quick enough.
    """
    workers = min(cores() if workers is None else workers, len(chunks), 16)
    if workers < 2 or len(chunks) < _FEWEST_CHUNKS or sys.platform != "linux":
        yield map(_encode_chunk, chunks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    executor = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("fork"),
        # Without this they would wait for ever for a parent that was killed.
        initializer=end_with,
        initargs=(os.getpid(), signal.SIGKILL),
    )
    with executor:
        yield executor.map(_encode_chunk, chunks)


class _TokenRun:
    """The tokens of several texts, one after the other, as ids of a vocabulary."""

    def __init__(self, ids: defaultdict[str, int]) -> None:
        self.ids = ids
        self.tokens = array("i")
        self.lengths: list[int] = []

    def add(self, text: str) -> Tokens:
        """Tokenise one more text."""
        tokens = tokenize(text)
        self.tokens.extend(map(self.ids.__getitem__, tokens.words))
        self.lengths.append(len(tokens))
        return tokens

    def arrays(self, name: str) -> NamedArrays:
        """Return the ids and where each text begins."""
        return {
            f"{name}_tokens": np.array(self.tokens, dtype=np.int32),
            f"{name}_bounds": bounds_of(self.lengths),
        }


def _new_vocabulary() -> defaultdict[str, int]:
    """Return a dictionary that numbers words from 1 on, by first appearance; 0 is padding."""
    return defaultdict(count(1).__next__)


def _encode_chunk(paragraphs: _Chunk) -> _Encoding:
    """Encode some paragraphs; a passage that was there before is not read again.

    The vocabulary has the words in the order of their first appearance.
    """
    vocabulary = _new_vocabulary()
    contexts = _TokenRun(vocabulary)
    questions = _TokenRun(vocabulary)
    starts = [np.empty(0, dtype=np.int32)]
    ends = [np.empty(0, dtype=np.int32)]
    rows: list[tuple[int, int, int, int]] = []
    for place, article, paragraph in paragraphs:
        if place == len(contexts.lengths):
            passage = contexts.add(paragraph.context)
            starts.append(passage.starts)
            ends.append(passage.ends)
        # As lists: bisection in them is faster than in arrays.
        passage_starts = starts[place + 1].tolist()
        passage_ends = ends[place + 1].tolist()
        for question in paragraph.questions:
            questions.add(question.text)
            first, last = answer_span(passage_starts, passage_ends, question.answers)
            rows.append((place, article, first, last))
    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    arrays: NamedArrays = {
        "paragraph": columns[0],
        "article": columns[1],
        "start": columns[2],
        "end": columns[3],
        **contexts.arrays("context"),
        **questions.arrays("question"),
        "starts": np.concatenate(starts),
        "ends": np.concatenate(ends),
    }
    return list(vocabulary), arrays


def answer_span(
    starts: Sequence[int],
    ends: Sequence[int],
    answers: Sequence[Reference],
) -> tuple[int, int]:
    """Return first and last token of the first answer on token boundaries.

    Where none is, the tokens that cover the first answer; (-1, -1) without any answer.
    """
    covering = (-1, -1)
    for answer in answers:
        begin = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = answer.start + len(answer.text.rstrip())
        first = bisect_right(ends, begin)
        last = bisect_left(starts, end) - 1
        if starts[first] == begin and ends[last] == end:
            return first, last
        if covering == (-1, -1):
            covering = first, last
    return covering


def _join(parts: list[_Encoding]) -> _Encoding:
    """Join the chunks to one encoding; the same however the work was divided."""
    vocabulary = _new_vocabulary()
    joined: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
    passages = 0
    for words, arrays in parts or [_encode_chunk([])]:
        # From ids of the chunk's vocabulary to ids of the joint one.
        ids = np.array([0, *map(vocabulary.__getitem__, words)], dtype=np.int32)
        for name, values in arrays.items():
            if name.endswith("_tokens"):
                values = ids[values]
            elif name.endswith("_bounds"):
                values = np.diff(values)
            elif name == "paragraph":
                values = values + np.int32(passages)
            joined[name].append(values)
        passages += len(arrays["context_bounds"]) - 1
    whole = {}
    for name, pieces in joined.items():
        values = np.concatenate(pieces)
        whole[name] = bounds_of(values) if name.endswith("_bounds") else values
    return list(vocabulary), whole
