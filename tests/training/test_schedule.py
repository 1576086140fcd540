"""Rates, averages and decisions as functions of the place in the run."""

from __future__ import annotations

import pytest

from rmreader.core.recipe import Training
from rmreader.training.schedule import Selection, average_weight, judge, rate_at


def test_warm_up_rises_linearly_to_the_full_rate() -> None:
    training = Training(schedule="constant", warmup=10)
    assert [rate_at(training, 1.0, step, 100, 0) for step in (0, 4, 9, 50)] == pytest.approx([0.1, 0.5, 1, 1])


def test_anneal_falls_to_zero_by_a_cosine() -> None:
    training = Training(schedule="anneal")
    rates = [rate_at(training, 1.0, step, 100, 3) for step in range(101)]
    assert rates[0] == 1
    assert rates[50] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0, abs=1e-12)
    assert rates == sorted(rates, reverse=True)


def test_halving_halves() -> None:
    assert [rate_at(Training(), 8e-4, 5, 100, k) for k in range(3)] == pytest.approx([8e-4, 4e-4, 2e-4])


def test_a_bad_iteration_halves_and_patience_ends_the_run() -> None:
    training = Training(schedule="halve", patience=2)
    selection, improved, stop = judge(Selection(), 50.0, 10, training)
    assert (selection.best, selection.best_step, improved, stop) == (50.0, 10, True, False)
    selection, improved, stop = judge(selection, 50.0, 20, training)  # equal is not better
    assert (selection.halvings, improved, stop) == (1, False, False)
    selection, improved, stop = judge(selection, 60.0, 30, training)
    assert (selection.best, selection.halvings, improved) == (60.0, 1, True)
    selection, _, stop = judge(selection, 10.0, 40, training)
    assert (selection.best, selection.best_step, selection.halvings, stop) == (60.0, 30, 2, False)
    assert judge(selection, 10.0, 50, training)[2]


def test_a_fixed_schedule_never_halves_nor_stops() -> None:
    selection = Selection(50.0, 1)
    assert judge(selection, 10.0, 2, Training(schedule="anneal", patience=0)) == (selection, False, False)


def test_young_averages_follow_quickly() -> None:
    assert average_weight(0.999, 0) == pytest.approx(0.9)
    assert average_weight(0.999, 10**6) == pytest.approx(0.001)
