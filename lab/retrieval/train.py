"""Learn by contrast: a question's passage must score higher than those it is confused with."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from lab.retrieval.arrays import quantize
from lab.retrieval.data import TrainingData
from lab.retrieval.model import Model
from lab.retrieval.scores import best_part, bm25, measure, mine, mix, mixed_cosine, most_words

HARD_LIST = 30  # passages that each question is confused with, of which a batch takes some
SHARES = {
    "squad": 0.4,
    "everyday": 0.3,
    "more": 0.12,
    "wiki": 0.18,
}  # of a batch
PRINTED = ("0.0", "0.4", "0.5", "0.6", "0.7", "0.8", "1.0")  # mixes whose recall is printed


@dataclass(frozen=True)
class Settings:
    """How to train."""

    out: Path
    name: str = "a"
    """Of this run's files in ``out``."""
    steps: int = 4000
    batch: int = 1024
    hard: int = 3
    """Hard passages per question and batch."""
    rate: float = 2e-3
    drop: float = 0.1
    """Share of pieces that are left out, by chance."""
    share: float = 0.6
    """Of the cosine in the mix that learns."""
    everyday: float = 0.3
    """Share of everyday questions in a batch; the others share the rest as ``SHARES`` has it."""
    dim: int = 256
    layers: int = 0
    """Of a network that questions go through, beside the sum of their pieces."""
    seed: int = 1
    evaluations: int = 16
    minutes: float = 30.0
    """At most so long; the rate of learning ends at zero then."""
    limit: int = 0
    """Use only so many questions; 0 is all of them."""
    resumable: int = 1
    """Whether the state is kept (eight times the table)."""
    device: str = "cpu"


class Trainer:
    """One training: its data, its model, and where it stands."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.began = time.monotonic()
        torch.manual_seed(settings.seed)
        torch.set_float32_matmul_precision("high")
        self.rng = np.random.default_rng(settings.seed)
        self.data = TrainingData(settings.out / "train.npz", settings.device)
        self.model = Model(self.data, settings.dim, settings.layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98))
        self.step = 0
        self.best = 0.0
        others = (1 - settings.everyday) / (1 - SHARES["everyday"])
        self.shares = {name: others * share for name, share in SHARES.items()}
        self.shares["everyday"] = settings.everyday
        self.rows = {name: self._rows(name) for name in SHARES}
        self.hard_passages = torch.zeros(0)
        self._resume()

    def run(self) -> None:
        """Train to the end, or until the time is over."""
        settings = self.settings
        self._mine()
        mined_again = False
        evaluated = 0.0
        while self._done() < 1:
            loss = self._step()
            self.step += 1
            if not mined_again and self._done() > 1 / 3:
                self._mine()
                mined_again = True
            if self._done() >= min(1.0, evaluated + 1 / settings.evaluations):
                evaluated = self._done()
                self._evaluate(loss)

    def _done(self) -> float:
        """The share of the training that is done, in steps or in time, whichever is more."""
        spent = (time.monotonic() - self.began) / (60 * self.settings.minutes)
        return max(self.step / self.settings.steps, spent)

    def _rows(self, name: str) -> np.ndarray:
        """The questions of a source."""
        rows = np.flatnonzero(self.data.source == name)
        if self.settings.limit:
            rows = rows[: int(self.settings.limit * SHARES[name])]
        return rows

    def _passages_of(self, name: str) -> Any:
        """The passages of a source's questions."""
        questions = self._on_device(self.rows[name])
        return torch.unique(self.data.gold[questions])

    def _on_device(self, array: np.ndarray) -> Any:
        """An array of rows as a tensor."""
        return torch.from_numpy(array).to(self.settings.device)

    def _mine(self) -> None:
        """Find the passages of the same source that each question is confused with today."""
        shape = (len(self.data.source), HARD_LIST)
        self.hard_passages = torch.zeros(shape, dtype=torch.long, device=self.settings.device)
        with torch.no_grad():
            for rows in self.rows.values():
                questions = self._on_device(rows)
                candidates = torch.unique(self.data.gold[questions])
                found = mine(
                    self.data,
                    self.model,
                    questions,
                    candidates,
                    HARD_LIST,
                )
                self.hard_passages[questions] = found
        self._say(f"hard passages mined at step {self.step}")

    def _step(self) -> float:
        """Learn from one batch; return its loss."""
        share_left = max(0.0, 1 - self._done())
        warmup = min(1.0, (self.step + 1) / 100)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * warmup * (0.02 + 0.98 * share_left)
        questions, passages = self._draw()
        loss = self._loss(questions, passages)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return float(loss.detach())

    def _draw(self) -> tuple[Any, Any]:
        """Draw the questions of a batch; passages are theirs, and some they are confused with."""
        settings = self.settings
        picked = []
        for name, share in self.shares.items():
            count = int(settings.batch * share)
            picked.append(self.rng.choice(self.rows[name], count))
        questions = self._on_device(np.concatenate(picked))
        columns = self.rng.choice(HARD_LIST, settings.hard, replace=False)
        near = self.hard_passages[questions][:, self._on_device(columns)]
        gold = self.data.gold[questions]
        passages = torch.unique(torch.cat([gold, near.flatten()]))
        return questions, passages

    def _loss(self, rows: Any, passages: Any) -> Any:
        """How far each question's passage is from having the highest score of all in the batch."""
        data = self.data
        drop = self.settings.drop
        questions = self.model.encode_questions(data, rows, drop)
        encoded = self.model.encode_passages(data, passages, drop)
        whole = questions @ encoded.T
        parts = best_part(questions, self.model.encode_parts(data, passages))
        cosine = mixed_cosine(whole, parts)
        mixed = mix(
            cosine,
            bm25(data, rows, passages),
            most_words(data, rows),
            self.settings.share,
        )
        target = torch.searchsorted(passages, data.gold[rows])
        scale = self.model.sharpness.exp()
        # The cosines learn alone, too, so that they are good where words fail.
        loss = functional.cross_entropy(scale[0] * mixed, target)
        loss = loss + 0.2 * functional.cross_entropy(scale[1] * cosine, target)
        loss = loss + 0.2 * functional.cross_entropy(scale[2] * whole, target)
        return loss

    def _evaluate(self, loss: float) -> None:
        """Measure recall of both held-out sets; keep the table if it is the best."""
        # Beside SQuAD's held-out passages all others of it, beside a folder's as many as it has.
        squad = self._passages_of("squad")
        folder = self._passages_of("everyday")[:220]
        recalls = {
            "everyday": measure(
                self.data,
                self.model,
                "held-everyday",
                folder,
            ),
            "squad": measure(
                self.data,
                self.model,
                "held-squad",
                squad,
            ),
        }
        # Recall at 10 of both, with the mix that suits them best.
        score = 0.0
        for share, squad_recall in recalls["squad"].items():
            score = max(score, squad_recall[2] + recalls["everyday"][share][2])
        line = {
            "name": self.settings.name,
            "step": self.step,
            "loss": loss,
            "score": score,
            "recall": recalls,
        }
        with (self.settings.out / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        self._say(f"step {self.step}, loss {loss:.3f}, score {score:.2f}")
        for name, table in recalls.items():
            print(
                "   ",
                name,
                {share: table[share] for share in PRINTED},
                flush=True,
            )
        if score > self.best:
            self.best = score
            save(self.model, self.settings.out / f"model-{self.settings.name}.npz")
        if self.settings.resumable:
            self._save_state()

    def _save_state(self) -> None:
        """Write all that a later run goes on from."""
        state = {
            "parameters": [parameter.data for parameter in self.model.parameters()],
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "best": self.best,
        }
        torch.save(state, self._state)

    @property
    def _state(self) -> Path:
        return self.settings.out / f"state-{self.settings.name}.pt"

    def _resume(self) -> None:
        """Go on from a state that was written."""
        if not self._state.exists():
            return
        saved = torch.load(
            self._state,
            weights_only=True,
            map_location=self.settings.device,
        )
        for parameter, value in zip(self.model.parameters(), saved["parameters"], strict=True):
            parameter.data.copy_(value)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]
        self.best = saved["best"]
        self.rng = np.random.default_rng([self.settings.seed, self.step])

    def _say(self, sentence: str) -> None:
        """Print a sentence with the seconds since the beginning."""
        seconds = time.monotonic() - self.began
        print(f"{self.settings.name}: {seconds:.0f} s: {sentence}", flush=True)


def save(model: Model, path: Path) -> None:
    """Write the table in eight bits, as it ships."""
    arrays = quantize(model.table.detach().cpu().numpy())
    arrays["weights"] = np.exp(model.weights.detach().cpu().numpy()).astype(np.float32)
    if model.network is not None:
        for name, value in model.network.state_dict().items():
            arrays[f"network.{name}"] = value.cpu().numpy().astype(np.float16)
        arrays["out"] = model.out.weight.detach().cpu().numpy().astype(np.float16)
        arrays["places"] = model.places.detach().cpu().numpy().astype(np.float16)
    np.savez_compressed(path, **arrays)
