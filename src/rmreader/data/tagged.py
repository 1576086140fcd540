"""The tags of an encoded file: computed once, cached by the content of pipeline and texts."""

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
    """Ids of part of speech and entity, one row per token of an encoded file; row 0 is padding."""

    contexts: NDArray[np.uint8]  # [1 + tokens, 2]
    questions: NDArray[np.uint8]


def tag_encoded(
    encoded: Encoded,
    tagger: Tagger,
    cache_dir: str | Path | None = None,
    keep: bool = True,
) -> Tagged:
    """Tag a file's passages and questions, from the cache or through spaCy.

    ``keep=False`` leaves no trace in the cache.
    """

    def make() -> tuple[Arrays, dict[str, Any]]:
        arrays = {part: _tag(encoded, tagger, part) for part in ("context", "question")}
        return arrays, {"pipeline": tagger.name, "entities": tagger.entities}

    if keep:
        folder = cache_folder("tags", cache_dir) / f"{tagger.fingerprint}-{encoded.content}"
        arrays, _ = cached(folder, make, "tags")
    else:
        arrays, _ = make()
    return Tagged(arrays["context"], arrays["question"])


def _tag(encoded: Encoded, tagger: Tagger, part: str) -> NDArray[np.uint8]:
    tokens = encoded.arrays[f"{part}_tokens"]
    bounds = encoded.arrays[f"{part}_bounds"]
    vocabulary = ["", *encoded.vocabulary]

    def texts() -> Iterator[list[str]]:
        for begin, end in pairwise(bounds):
            yield [vocabulary[word] for word in tokens[begin:end].tolist()]

    tags = np.zeros((1 + int(bounds[-1]), 2), np.uint8)
    bar = progress(f"Tagging {part}s", len(bounds) - 1, "texts")
    # A bar for a few texts would only flicker.
    with bar if len(bounds) > 256 else nullcontext(lambda _: None) as advance:
        for begin, ids in zip(bounds[:-1], tagger.tag(texts()), strict=True):
            tags[begin + 1 : begin + 1 + len(ids)] = ids
            advance(1)
    return tags
