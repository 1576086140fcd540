"""Whole runs on tiny data: resuming, choosing, keeping, refusing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.data.batch import Batch, QuestionSource, Target
from rmreader.data.encode import encode_pairs
from rmreader.data.split import split
from rmreader.model.network import Network
from rmreader.training import reader_folder, trainer
from rmreader.training.evaluate import Scores, evaluate, in_order
from rmreader.training.feed import Feed
from rmreader.training.log import read_log
from rmreader.training.objectives import Span
from rmreader.training.run_folder import Stop, load_checkpoint
from rmreader.training.step import Learner
from rmreader.training.trainer import Run, train

STAGES = {
    "ml": (),
    "scst": ("training.objective=scst", "training.sampler=plain", "training.schedule=anneal"),
    "dcrl": ("training.objective=dcrl", "training.top_k=4"),
}
QUICK = "training.checkpoint_every=1000"
ALL = ("training.holdout=0", "training.schedule=anneal")  # learn from everything, by a fixed schedule


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_log(out / "log.jsonl") if event["event"] == kind]


@pytest.mark.parametrize("stage", STAGES)
def test_stopped_and_resumed_runs_end_in_the_same_bits(
    tiny: Any, tmp_path: Path, stop_after: Callable[[int], Any], stage: str
) -> None:
    whole = tiny.finished(tmp_path / "whole", *STAGES[stage])
    for looks in (5, 16, 17, 12, 10**6):  # stops before, at and after evaluations
        setup = tiny.setup(tmp_path / "parts", *STAGES[stage], resume=True)
        result = Run(setup).go(stop_after(looks))
    assert result.finished
    tensors, state = load_checkpoint(tmp_path / "whole" / "last")
    again, state_again = load_checkpoint(tmp_path / "parts" / "last")
    assert state == state_again  # selection, halvings, reward statistics, position
    assert tensors.keys() == again.keys()
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    names = ("loss", "ml", "reward_sample", "suppressed", "sigma_a", "sigma_b", "gamma", "halvings", "scores")
    for one, two in zip(*(events(tmp_path / out, "evaluation") for out in ("whole", "parts")), strict=True):
        assert [one.get(name) for name in names] == [two.get(name) for name in names]
    best, best_again = (load_file(tmp_path / out / "best" / "weights.safetensors") for out in ("whole", "parts"))
    assert all(torch.equal(best[name], best_again[name]) for name in best)
    assert any(name.startswith("adam.") for name in tensors)
    assert whole.state.step == whole.total


@pytest.mark.parametrize("read_every", [1, 4])
def test_the_log_of_a_run_in_parts_is_that_of_the_whole_run(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_every: int
) -> None:
    fill, set_place, fatal = Feed.fill, Learner.set_place, -1

    def poison(self: Feed, batch: Batch[Any]) -> Batch[Any]:
        filled = fill(self, batch)
        if self.max_context is None or 3 not in batch.source.index.tolist():
            return filled
        words = dataclasses.replace(filled.words, vectors=filled.words.vectors * torch.nan)
        return dataclasses.replace(filled, words=words)

    def die(self: Learner, step: int, *place: Any) -> None:
        if step == fatal:
            raise KeyboardInterrupt  # which leaves on the disk what SIGKILL would
        set_place(self, step, *place)

    class StopAt(Stop):
        def __init__(self, run: Run, step: int) -> None:
            self.run, self.step = run, step

        def __bool__(self) -> bool:
            return self.run.state.step >= self.step

    def part() -> Run:
        setup = tiny.setup(tmp_path / "parts", QUICK, resume=True)
        return Run(dataclasses.replace(setup, read_every=read_every))  # as on a GPU, where it is as many as a line has

    def log(out: str) -> list[dict[str, Any]]:
        lines = read_log(tmp_path / out / "log.jsonl")
        return [{name: value for name, value in line.items() if name != "questions_per_second"} for line in lines]

    monkeypatch.setattr(trainer, "_LOG_EVERY", 4)
    monkeypatch.setattr(Feed, "fill", poison)
    monkeypatch.setattr(Learner, "set_place", die)
    tiny.finished(tmp_path / "whole", QUICK)
    assert {"train", "evaluation", "bad", "end"} == {line["event"] for line in log("whole")}
    for step in range(3, 24, 3):  # lines are due on every fourth, evaluations on every sixth
        run = part()
        run.go(StopAt(run, step))
        fatal = step + 2
        with contextlib.suppress(KeyboardInterrupt):
            part().go(Stop())
        fatal = -1
    assert part().go(Stop()).finished
    assert log("parts") == log("whole")


def test_resume_remembers_the_best_score_of_before(tiny: Any, tmp_path: Path, stop_after: Callable[[int], Any]) -> None:
    still = ("training.rate=1e-12", "training.ema=0")  # every evaluation scores the same: the first stays the best
    Run(tiny.setup(tmp_path, *still)).go(stop_after(30))
    before = json.loads((tmp_path / "last" / "state.json").read_text())
    assert before["selection"]["best_step"] == 6 < before["step"]
    kept = (tmp_path / "best" / "reader.json").stat().st_mtime_ns
    run = Run(tiny.setup(tmp_path, *still, resume=True))
    assert run.go(Stop()).finished
    assert run.state.selection.best_step == 6
    assert run.state.selection.halvings == len(events(tmp_path, "evaluation")) - 1
    assert (tmp_path / "best" / "reader.json").stat().st_mtime_ns == kept


@pytest.mark.parametrize("ema", [0.9, 0])
def test_weights_that_were_evaluated_are_the_weights_that_are_saved(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ema: float
) -> None:
    scored: list[dict[str, Tensor]] = []

    def watch(network: Network, *rest: Any) -> Scores:
        scored.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
        return evaluate(network, *rest)

    monkeypatch.setattr(trainer, "evaluate", watch)
    run = tiny.finished(tmp_path, f"training.ema={ema}")
    evaluations = [event["step"] for event in events(tmp_path, "evaluation")]
    best = scored[evaluations.index(run.state.selection.best_step)]
    saved = load_file(tmp_path / "best" / "weights.safetensors")
    assert all(torch.equal(saved[name], best[name]) for name in saved)
    last, _ = load_checkpoint(tmp_path / "last")
    assert all(torch.equal(scored[-1][name], last[f"{'average' if ema else 'network'}.{name}"]) for name in saved)
    if ema:  # and the two are not the same thing
        assert not torch.equal(last["average.encoder.lstm.weight_ih"], last["network.encoder.lstm.weight_ih"])
    network, _, recipe = reader_folder.load_network(tmp_path / "best")
    scores = evaluate(network, run.setup.selection, recipe.decoding.max_length).tree()
    assert scores == run.state.selected["selection"]


def test_moving_average_is_the_average_of_the_weights(tiny: Any, tmp_path: Path) -> None:
    run = Run(tiny.setup(tmp_path))
    name, weights = next(iter(run.learner.network.named_parameters()))
    follower = weights.detach().clone()
    for step, (_, batch) in zip(range(3), run.setup.train.batches(run._upcoming()), strict=False):
        run.learner.set_place(step, run.total, 0)
        run.learner.step(run.setup.train.fill(batch))
        decay = min(0.9, (1 + step) / (10 + step))
        follower = decay * follower + (1 - decay) * weights.detach()
    assert run.learner.average is not None
    torch.testing.assert_close(dict(run.learner.average.named_parameters())[name], follower)


def test_dev_is_reported_and_decides_nothing(tiny: Any, tmp_path: Path) -> None:
    with_dev = tiny.finished(tmp_path / "a", dev=True, curve=True)
    without = tiny.finished(tmp_path / "b", dev=False)
    assert with_dev.state.selection == without.state.selection
    reports = [event["scores"] for event in events(tmp_path / "a", "evaluation")]
    assert all(scores.keys() == {"selection", "dev"} for scores in reports)
    about = json.loads((tmp_path / "a" / "best" / "reader.json").read_text())
    assert about["scores"]["dev"]["total"] == 20
    a, b = (load_file(tmp_path / out / "best" / "weights.safetensors") for out in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_without_held_out_articles_the_last_weights_are_kept(tiny: Any, tmp_path: Path) -> None:
    run = tiny.finished(tmp_path, *ALL)
    assert run.setup.selection is None
    assert len(run.setup.train.encoded) == 60
    saved = load_file(tmp_path / "best" / "weights.safetensors")
    last, _ = load_checkpoint(tmp_path / "last")
    assert all(torch.equal(saved[name], last[f"average.{name}"]) for name in saved)


def test_held_out_share_is_whole_articles_by_the_seed_alone(tiny: Any, tmp_path: Path) -> None:
    encoded = tiny.setup(tmp_path, *ALL).train.encoded
    chosen = set()
    for seed in range(20):
        learned, held = split(encoded, 0.34, seed)
        assert held is not None
        assert set(learned.article) & set(held.article) == set()
        assert len(set(held.article)) == 2
        assert (held.rows == split(encoded, 0.34, seed)[1].rows).all()
        chosen.add(tuple(sorted(set(held.article.tolist()))))
    assert len(chosen) > 3


def test_holding_out_everything_is_refused(tiny: Any, tmp_path: Path) -> None:
    encoded = tiny.setup(tmp_path, *ALL).train.encoded
    with pytest.raises(UserError, match=r"set training\.holdout=0"):
        split(encoded, 0.95, 1)


def test_halving_without_held_out_articles_is_refused(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="halving is decided on held-out articles"):
        tiny.setup(tmp_path, "training.holdout=0")
    assert not list(tmp_path.iterdir())


def test_a_bad_step_changes_nothing_and_is_counted(tiny: Any, tmp_path: Path) -> None:
    run = Run(tiny.setup(tmp_path, "training.max_bad_steps=2"))
    _, batch = next(run.setup.train.batches(run._upcoming()))
    filled = run.setup.train.fill(batch)
    run.learner.set_place(0, run.total, 0)
    run.learner.step(filled)
    before = {name: tensor.clone() for name, tensor in run.learner.tensors().items()}
    poisoned = dataclasses.replace(
        filled, words=dataclasses.replace(filled.words, vectors=torch.full_like(filled.words.vectors, torch.inf))
    )
    measures = run.learner.step(poisoned)["measures"]
    assert measures[run.learner.measures.index("bad")] == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.learner.tensors().items())
    assert run.learner.step(filled)["measures"][0] == 0


def test_too_many_bad_steps_end_the_run_with_their_questions_saved(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = Feed.fill

    def poison(self: Feed, batch: Batch[Any]) -> Batch[Any]:
        filled = fill(self, batch)
        if self.max_context is not None and 3 in batch.source.index.tolist():
            words = dataclasses.replace(filled.words, vectors=filled.words.vectors * torch.nan)
            filled = dataclasses.replace(filled, words=words)
        return filled

    monkeypatch.setattr(Feed, "fill", poison)
    run = Run(tiny.setup(tmp_path, "training.max_bad_steps=3"))
    with pytest.raises(UserError, match="3 steps had a loss or gradient that is not finite"):
        run.go(Stop())
    files = sorted((tmp_path / "bad").iterdir())
    assert len(files) == 3
    named = run.setup.train.encoded.ids[3]
    assert all(named in json.loads(file.read_text())["questions"] for file in files)
    tensors, state = load_checkpoint(tmp_path / "last")
    assert state["bad"] == 3
    assert all(tensor.isfinite().all() for tensor in tensors.values())


def test_very_long_passages_are_evaluated_few_at_a_time() -> None:
    encoded = encode_pairs([("Who?", "word " * length) for length in (9000, 30, 4000, 20, 4000, 4000, 4000, 4000)])
    batches = in_order(encoded, 4)
    assert sorted(np.concatenate(batches).tolist()) == list(range(8))
    assert [len(batch) for batch in batches] == [4, 3, 1]
    for batch in batches:
        longest = int(encoded.context_lengths[batch].max())
        assert len(batch) == 1 or len(batch) * longest**2 <= 64 * 1024**2


def test_a_folder_with_a_run_is_not_overwritten(tiny: Any, tmp_path: Path) -> None:
    tiny.finished(tmp_path / "out", "training.epochs=1")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="already holds a run; add --resume"):
        tiny.setup(tmp_path / "out", "training.epochs=1")
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}


def test_resuming_with_another_recipe_names_the_differing_keys(tiny: Any, tmp_path: Path) -> None:
    tiny.setup(tmp_path)
    with pytest.raises(UserError, match=r"training.rate \(was 0.005, is 0.1\), training.epochs|network.blocks"):
        tiny.setup(tmp_path, "training.rate=0.1", "network.blocks=1", resume=True)


def test_resuming_on_other_data_is_refused(tiny: Any, tmp_path: Path) -> None:
    setup = tiny.setup(tmp_path / "out")
    tree = json.loads((tiny.folder / "train.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps(tree | {"data": tree["data"][1:]}))
    with pytest.raises(UserError, match="other training data"):
        train(setup.recipe, tmp_path / "other.json", None, tmp_path / "out", resume=True, device="cpu")


def test_damaged_checkpoint_is_left_and_the_one_before_resumed(
    tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.finished(tmp_path / "whole")
    tiny.finished(tmp_path / "hurt")
    content = (tmp_path / "hurt" / "last" / "tensors.safetensors").read_bytes()
    (tmp_path / "hurt" / "last" / "tensors.safetensors").write_bytes(content[:-1])
    run = Run(tiny.setup(tmp_path / "hurt", resume=True))
    assert run.state.step < run.total
    assert "going on from last.old" in capsys.readouterr().err
    run.go(Stop())
    whole, hurt = (load_checkpoint(tmp_path / out / "last")[0] for out in ("whole", "hurt"))
    assert all(torch.equal(whole[name], hurt[name]) for name in whole)


def test_self_critical_run_measures_suppression(tiny: Any, tmp_path: Path) -> None:
    run = tiny.finished(tmp_path, "training.objective=scst", "training.epochs=8", "training.rate=0.02", QUICK)
    logged = events(tmp_path, "evaluation")
    assert any(event["suppressed"] > 0 for event in logged)
    assert {"reward_sample", "reward_greedy", "sample_better", "gradient", "rate", "gamma"} <= logged[0].keys()
    assert run.learner.rewards is not None


def test_fixed_task_weights_add_the_weighted_losses(tiny: Any, tmp_path: Path) -> None:
    overrides = ("training.objective=dcrl", "training.task_weights=fixed", "training.reward_weight=0.25")
    run = Run(tiny.setup(tmp_path, *overrides))
    _, batch = next(run.setup.train.batches(run._upcoming()))
    row = run.learner.step(run.setup.train.fill(batch))["measures"]
    measures = dict(zip(run.learner.measures, row.tolist(), strict=True))
    assert measures["loss"] == pytest.approx(measures["ml"] + 0.25 * measures["rl"], rel=1e-6)
    assert run.learner.log_variances.grad is None


def test_reward_of_a_cut_passage_is_that_of_its_words(tiny: Any, tmp_path: Path) -> None:
    """The true span has reward 1 wherever the window of the passage begins."""
    run = Run(tiny.setup(tmp_path, "training.objective=dcrl", "training.max_context=12"))
    _, batch = next(run.setup.train.batches([np.arange(40)]))
    assert batch.source.offset.max() > 0
    truth, first = Span(batch.target.start, batch.target.end), Span(batch.target.start * 0, batch.target.end * 0)
    reward_truth, reward_first = run.learner._rewards(batch, truth, first)
    assert reward_truth.min() == 1
    assert reward_first.mean() < 0.5


class Constant:
    """A reward of 1 for every sample and 0 for every greedy answer."""

    def f1(self, question: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return torch.cat([torch.ones(len(start) // 2), torch.zeros(len(start) // 2)]).double()


def test_plain_samples_are_scored_by_what_they_are_drawn_from(tiny: Any, tmp_path: Path) -> None:
    """E[∇ log p(Aˢ)] is 0 under p itself and under no other distribution: a constant reward must teach nothing."""
    run = Run(tiny.setup(tmp_path, "training.objective=scst", "training.sampler=plain"))
    run.learner.rewards = Constant()  # type: ignore[assignment]
    rows, m = 40_000, 5
    logits = torch.randn(2, m, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    log_p1, log_p2 = logits.log_softmax(1)[:, None].expand(2, rows, m).unbind(0)
    number = torch.zeros(rows, dtype=torch.long)
    _, batch = next(run.setup.train.batches([np.arange(2)]))
    batch = dataclasses.replace(
        batch,
        target=Target(number, number),
        source=QuestionSource(number, number),
        context_lengths=torch.full((rows,), m),
    )
    torch.manual_seed(1)
    loss, _ = run.learner._reinforce(batch, log_p1, log_p2)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 4 / rows**0.5


def test_term_signal_ends_after_the_step_with_a_checkpoint(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Learner.set_place

    def signal_at_seven(self: Learner, step: int, *rest: Any) -> None:
        if step == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        place(self, step, *rest)

    monkeypatch.setattr(Learner, "set_place", signal_at_seven)
    recipe = tiny.recipe("training.epochs=1000", "training.evaluate_every=50")
    data = tiny.folder / "train.json"
    result = train(recipe, data, None, tmp_path, device="cpu", cache_dir=tiny.folder)
    assert not result.finished
    assert load_checkpoint(tmp_path / "last")[1]["step"] == result.steps == 8


def test_network_learns_the_tiny_data(tiny: Any, tmp_path: Path) -> None:
    settings = ("training.epochs=12", "training.batch_size=15", "training.rate=0.02", "training.evaluate_every=60")
    run = tiny.finished(
        tmp_path, *settings, "training.holdout=0", "training.schedule=anneal", "network.dropout=0", QUICK
    )
    assert evaluate(run.learner.averaged, run.setup.train, 15).f1 > 40  # at random: about 3


def test_curves_for_tensorboard_are_written_on_request(tiny: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    Run(tiny.setup(tmp_path, "training.epochs=1"), tensorboard=True).go(Stop())
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = EventAccumulator(str(tmp_path / "tensorboard"))
    curves.Reload()
    names = curves.Tags()["scalars"]
    assert {"evaluation/loss", "evaluation/scores/selection/f1", "evaluation/gamma/0"} <= set(names)


def test_learner_names_every_tensor_once(tiny: Any, tmp_path: Path) -> None:
    setup = tiny.setup(tmp_path, "training.objective=dcrl")
    learner = Learner(setup.network, setup.recipe, setup.rewards)
    assert list(learner._trained)[-1] == "log_variances"
    assert len(set(learner._parameters)) == len(learner._trained)
