"""The tags of an encoded file: computed once, kept on disk by the pipeline's and the texts' content."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.console import progress
from rmreader.core.files.cache import cache_folder
from rmreader.data.encoded import Encoded
from rmreader.data.store import Arrays, cached
from rmreader.text.tags import Tagger


@dataclass(frozen=True)
class Tagged:
    """One row of ids, part of speech and entity, for each token of an encoded file; row 0 is padding."""

    contexts: NDArray[np.uint8]  # [1 + tokens, 2]
    questions: NDArray[np.uint8]


def tag_encoded(encoded: Encoded, tagger: Tagger, cache_dir: str | Path | None = None, keep: bool = True) -> Tagged:
    """The tags of a file's passages and questions, from the cache or through spaCy; ``keep=False`` leaves no trace."""

    def make() -> tuple[Arrays, dict[str, Any]]:
        arrays = {part: _tag(encoded, tagger, part) for part in ("context", "question")}
        return arrays, {"pipeline": tagger.name, "entities": tagger.entities}

    if not keep:
        arrays, _ = make()
    else:
        folder = cache_folder("tags", cache_dir) / f"{tagger.fingerprint}-{encoded.content}"
        arrays, _ = cached(folder, make, "tags")
    return Tagged(arrays["context"], arrays["question"])


def _tag(encoded: Encoded, tagger: Tagger, part: str) -> NDArray[np.uint8]:
    tokens, bounds = encoded.arrays[f"{part}_tokens"], encoded.arrays[f"{part}_bounds"]
    vocabulary = ["", *encoded.vocabulary]
    out = np.zeros((1 + int(bounds[-1]), 2), np.uint8)

    def texts() -> Iterator[list[str]]:
        for begin, end in pairwise(bounds):
            yield [vocabulary[word] for word in tokens[begin:end].tolist()]

    bar = progress(f"Tagging {part}s", len(bounds) - 1, "texts")
    with bar if len(bounds) > 256 else nullcontext(lambda _: None) as advance:
        for begin, ids in zip(bounds[:-1], tagger.tag(texts()), strict=True):
            out[begin + 1 : begin + 1 + len(ids)] = ids
            advance(1)
    return out
