"""A teacher's states of every word: kept, put beside batches, learned; and what a student inherits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rmreader.core.errors import UserError
from rmreader.core.recipe import recipe_from
from rmreader.data.batch import Taught
from rmreader.data.batches import assemble_rows
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.model.network import Reading
from rmreader.readers.folder import open_folder
from rmreader.training.objectives import states_loss
from rmreader.training.states import SCALE, StatesWriter, TaughtStates

MAX_CONTEXT = 40
SIZE = 6


@pytest.fixture
def questions(tiny: Any, tmp_path: Path) -> Encoded:
    return encode_file(tiny.folder / "train.json", tmp_path / "cache")


def batch_of(questions: Encoded, index: np.ndarray) -> Any:
    """A batch with a teacher's distributions, whatever they are."""
    lengths = np.ones(len(questions.vocabulary) + 1, np.int64)
    batch = assemble_rows(questions, lengths, index, max_context=MAX_CONTEXT)
    nothing = np.zeros(batch.context.shape, np.float16)
    return dataclasses.replace(batch, taught=Taught(nothing, nothing))


def reading_of(batch: Any, draw: np.random.Generator) -> Reading:
    """States at random, as a reader's are: between -1 and 1, with numbers at padding too."""
    rows = len(batch.context)
    question = draw.uniform(-1, 1, (rows, batch.question.shape[1], SIZE))
    context = torch.from_numpy(draw.uniform(-1, 1, (rows, batch.context.shape[1], SIZE)))
    return Reading(R=context, V=torch.from_numpy(question), U=context)


def write(folder: Path, questions: Encoded, close: bool = True) -> dict[int, Any]:
    """Random states of all questions, three at a time; V and U by the question's number."""
    draw = np.random.default_rng(3)
    writer = StatesWriter(folder, questions, MAX_CONTEXT, SIZE)
    every = {}
    for index in np.array_split(draw.permutation(len(questions)), len(questions) // 3):
        reading = reading_of(batch_of(questions, index), draw)
        writer.add(index, reading)
        assert reading.U is not None
        for row, number in enumerate(index.tolist()):
            every[number] = reading.V[row], reading.U[row]
    if close:
        writer.close()
    return every


def test_states_come_back_beside_any_batch_and_padding_has_none(questions: Encoded, tmp_path: Path) -> None:
    written = write(tmp_path / "states", questions)
    states = TaughtStates(tmp_path / "states", questions, MAX_CONTEXT, SIZE)
    index = np.array([4, 0, len(questions) - 1])
    batch = states.attach(batch_of(questions, index), index)
    for row, number in enumerate(index.tolist()):
        asked = int(batch.question_lengths[row])
        read = int(batch.context_lengths[row])
        question = batch.taught.question_states[row]
        context = batch.taught.context_states[row]
        V, U = written[number]
        np.testing.assert_allclose(question[:asked] / SCALE, V[:asked], atol=0.004)
        np.testing.assert_allclose(context[:read] / SCALE, U[:read], atol=0.004)
        assert not question[asked:].any()
        assert not context[read:].any()


def test_a_folder_that_is_not_whole_or_about_others_is_refused(questions: Encoded, tmp_path: Path) -> None:
    write(tmp_path / "half", questions, close=False)
    with pytest.raises(UserError, match="not whole"):
        TaughtStates(tmp_path / "half", questions, MAX_CONTEXT, SIZE)
    write(tmp_path / "whole", questions)
    with pytest.raises(UserError, match="other questions"):
        TaughtStates(tmp_path / "whole", questions, MAX_CONTEXT + 1, SIZE)
    with pytest.raises(UserError, match="another hidden size"):
        TaughtStates(tmp_path / "whole", questions, MAX_CONTEXT, SIZE + 2)


def test_the_loss_is_a_share_of_the_teachers_squares_over_true_words() -> None:
    draw = np.random.default_rng(5)
    own = draw.normal(size=(3, 4, 2))
    taught = draw.normal(size=(3, 4, 2))
    lengths = [4, 1, 3]
    apart = 0.0
    squares = 0.0
    for row, length in enumerate(lengths):
        for word in range(length):
            for number in range(2):
                apart += (own[row, word, number] - taught[row, word, number]) ** 2
                squares += taught[row, word, number] ** 2
    words = torch.arange(4) < torch.tensor(lengths)[:, None]
    loss = states_loss(torch.from_numpy(own), torch.from_numpy(taught), words)
    assert loss.item() == pytest.approx(apart / squares, rel=1e-12)


def test_a_student_begins_with_its_teachers_aligner_and_pointer_and_nothing_else(tiny: Any, tmp_path: Path) -> None:
    tiny.finished(tmp_path / "teacher")
    best = tmp_path / "teacher" / "best"
    teacher = open_folder(best).weights()
    plain = tiny.setup(tmp_path / "plain", "training.seed=9").network.state_dict()
    heir = tiny.setup(tmp_path / "heir", "training.seed=9", f"training.inherit={best}").network
    for name, weight in heir.state_dict().items():
        is_inherited = name.startswith(("aligner.", "pointer."))
        expected = torch.from_numpy(teacher[name]) if is_inherited else plain[name]
        torch.testing.assert_close(weight, expected)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"teacher_states": "states"}, "set training.teacher"),
        ({"init": "a", "inherit": "b"}, "leave one"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, str], remedy: str) -> None:
    with pytest.raises(UserError, match=remedy):
        recipe_from({"training": settings})
