"""What torch may take away: the plain ways give the same numbers."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import Tensor

from rmreader.kernels import beyond
from rmreader.model.compiled import compile_for_lengths


def tensors(*seeds: int) -> list[list[Tensor]]:
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    return [[torch.randn(shape, generator=draw) for shape in ((3,), (2, 5), ())] for draw in draws]


def test_this_torch_has_every_part() -> None:
    assert beyond.FOREACH
    assert beyond.LSTM
    assert beyond.CHECK
    assert beyond._shapes_work()
    assert beyond.compiler_options()


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("FOREACH", "_foreach_sub"),
        ("FOREACH", "_foreach_copy_"),
        ("FOREACH", "_foreach_mul_"),
        ("FOREACH", "_foreach_add_"),
        ("LSTM", "_VF"),
        ("CHECK", "_check"),
    ],
)
def test_a_part_that_is_gone_is_noticed(part: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, name)
    try:
        assert not getattr(importlib.reload(beyond), part)
    finally:
        monkeypatch.undo()
        assert getattr(importlib.reload(beyond), part)


def test_a_part_that_does_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_foreach_copy_", lambda targets, sources: None)
    assert not beyond._works(beyond._try_foreach)


def test_without_the_check_a_promise_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_check")
    monkeypatch.setattr(beyond, "CHECK", beyond._works(beyond._try_check))
    beyond.promise(True)


@pytest.mark.parametrize(
    ("module", "setting"),
    [("torch._dynamo.config", "recompile_limit"), ("torch.fx.experimental._config", "use_duck_shape")],
)
def test_without_a_setting_of_the_compiler_lengths_are_left_as_they_are(
    module: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = importlib.import_module(module)
    monkeypatch.delitem(config._config, setting)
    beyond._shapes_work.cache_clear()
    try:
        assert not beyond._shapes_work()
        with beyond.any_lengths():
            pass
    finally:
        monkeypatch.undo()
        beyond._shapes_work.cache_clear()
    assert beyond._shapes_work()


def test_without_the_modules_of_the_compiler_lengths_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.fx.experimental._config", None)
    monkeypatch.delattr(torch.fx.experimental, "_config")
    assert not beyond._works(beyond._try_shapes)


def test_an_option_that_the_compiler_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beyond, "_OPTIONS", {"triton.no_such_option": False})
    beyond.compiler_options.cache_clear()
    try:
        assert beyond.compiler_options() == {}
        doubled = compile_for_lengths(lambda data: data * 2, "m")  # made, with no option
        assert callable(doubled)
    finally:
        beyond.compiler_options.cache_clear()


def test_the_plain_ways_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> list[Tensor]:
        one, two = tensors(1, 2)
        beyond.approach(one, two, torch.tensor(0.3))
        beyond.copy_all(two, one)
        return two

    fast = moved()
    monkeypatch.setattr(beyond, "FOREACH", False)
    for ours, theirs in zip(fast, moved(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_plain_lstm_gives_the_same_states_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(3)
    data = torch.randn(7, 4, generator=draw, dtype=torch.float64)
    sizes, zero = torch.tensor([3, 3, 1]), torch.zeros(2, 3, 5, dtype=torch.float64)
    shapes = [(20, 4), (20, 5), (20,), (20,)] * 2
    weights = [torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]

    def results() -> list[Tensor]:
        output, last = beyond.packed_lstm(data, sizes, zero, weights)
        gradients = torch.autograd.grad(output.square().sum() + last.sum(), weights)
        return [output, last, *gradients]

    fast = results()
    monkeypatch.setattr(beyond, "LSTM", False)
    for ours, theirs in zip(fast, results(), strict=True):
        torch.testing.assert_close(ours, theirs)
