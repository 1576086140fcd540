"""A teacher's states of every word of the training questions, V and U of Eq. 12, on disk.

A student that learns them is told much more of each question than where its answer is. They are
the outputs of an LSTM, within ±1, and are kept as 8-bit numbers: 11 GB for 330,000 questions.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.core.files.reading import read_json
from rmreader.data.batch import Batch, required
from rmreader.data.batches import crop
from rmreader.data.encoded import Encoded
from rmreader.data.store import bounds_of
from rmreader.model.network import Reading
from rmreader.training.words import fingerprint

SCALE = 127.0  # a state of 1
_ABOUT = "about.json"  # written last, so that a folder that has it is whole
_PARTS = ("question", "context")


def bounds_of_words(questions: Encoded, max_context: int) -> dict[str, NDArray[np.int64]]:
    """Return where the words of each question, and of its passage as it is cut, begin and end."""
    lengths = crop(questions, np.arange(len(questions)), max_context)[1]
    return {
        "question": bounds_of(questions.question_lengths),
        "context": bounds_of(lengths),
    }


class StatesWriter:
    """Writes the states of all questions, in any order, into a folder."""

    def __init__(self, folder: Path, questions: Encoded, max_context: int, size: int) -> None:
        """``size``: numbers of a state, 2d."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.about = _about(questions, max_context, size)
        self.bounds = bounds_of_words(questions, max_context)
        self.arrays: dict[str, np.memmap[Any, np.dtype[np.int8]]] = {}
        for part in _PARTS:
            words = int(self.bounds[part][-1])
            self.arrays[part] = np.lib.format.open_memmap(
                folder / f"{part}.npy",
                mode="w+",
                dtype=np.int8,
                shape=(words, size),
            )

    def add(self, index: NDArray[Any], reading: Reading) -> None:
        """Keep the states of a batch of questions."""
        every = {"question": reading.V, "context": required(reading.U, "states of passages")}
        for part, states in every.items():
            array = self.arrays[part]
            bounds = self.bounds[part]
            rows = _in_8_bits(states)
            for row, number in zip(rows, index.tolist(), strict=True):
                begin = bounds[number]
                end = bounds[number + 1]
                array[begin:end] = row[: end - begin]

    def close(self) -> None:
        """Say that all questions are in."""
        for part in _PARTS:
            self.arrays[part].flush()
        text = json.dumps(self.about)
        (self.folder / _ABOUT).write_text(text, encoding="utf-8")


def _about(questions: Encoded, max_context: int, size: int) -> dict[str, Any]:
    """What a folder says of itself."""
    return {
        "questions": fingerprint(questions, max_context),
        "size": size,
    }


def _in_8_bits(states: Tensor) -> NDArray[np.int8]:
    scaled = states.float() * SCALE
    rounded = scaled.round().clamp(-SCALE, SCALE)
    array: NDArray[np.int8] = rounded.char().cpu().numpy()
    return array


class TaughtStates:
    """The states of a folder, to be put beside batches."""

    def __init__(self, folder: Path, questions: Encoded, max_context: int, size: int) -> None:
        """Refuse a folder that is not whole, or is about other questions or networks."""
        path = folder / _ABOUT
        if not path.exists():
            raise UserError(f"{folder}: it is not whole; make it from this training file.")
        about = read_json(path, "make it from this training file")
        if about != _about(questions, max_context, size):
            raise UserError(
                f"{folder}: it is about other questions, or of a teacher with another hidden size; "
                "make it from this training file."
            )
        self.bounds = bounds_of_words(questions, max_context)
        self.arrays: dict[str, NDArray[np.int8]] = {}
        for part in _PARTS:
            # Not read into memory: several students share what the system keeps of it.
            file = folder / f"{part}.npy"
            self.arrays[part] = np.load(file, mmap_mode="r", allow_pickle=False)

    def attach(self, batch: Batch[Any], index: NDArray[Any]) -> Batch[Any]:
        """The batch of some questions with the states of their words."""
        taught = required(batch.taught, "teacher's distributions")
        question_width = batch.question.shape[1]
        context_width = batch.context.shape[1]
        taught = dataclasses.replace(
            taught,
            question_states=self._rows("question", index, question_width),
            context_states=self._rows("context", index, context_width),
        )
        return dataclasses.replace(batch, taught=taught)

    def _rows(self, part: str, index: NDArray[Any], width: int) -> NDArray[np.int8]:
        """[B, width, 2d], 0 at padding."""
        array = self.arrays[part]
        bounds = self.bounds[part]
        size = array.shape[1]
        rows = np.zeros((len(index), width, size), np.int8)
        for row, number in zip(rows, index.tolist(), strict=True):
            begin = bounds[number]
            end = bounds[number + 1]
            row[: end - begin] = array[begin:end]
        return rows
