"""One training step, from a batch to changed weights, without ever waiting for the device.

The rate, the weight of the moving average and all randomness come from outside, so that a step can
be captured once and replayed, and so that its place in the run is all there is to remember of it.
"""

import copy
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from rmreader.core.recipe import Recipe
from rmreader.data.batch import Batch, Target, required
from rmreader.kernels.beyond import approach
from rmreader.model.contextual import TunedEncoder
from rmreader.model.masking import true_steps
from rmreader.model.network import Network, Pointers
from rmreader.model.pointer import log_total
from rmreader.model.spans import top_spans
from rmreader.readers.weights import part
from rmreader.training import objectives
from rmreader.training.objectives import Span
from rmreader.training.rewards import Rewards
from rmreader.training.schedule import average_weight, rate_at
from rmreader.training.states import SCALE

# What every step measures, and what one with reinforcement learning measures beside it.
BASIC = ("bad", "loss", "ml", "gradient", "entropy_start", "entropy_end")
REINFORCED = ("rl", "reward_sample", "reward_greedy", "sample_better", "suppressed")


class Learner:
    """The network, its moving average, the task weights and the optimizer: all a step changes."""

    def __init__(
        self,
        network: Network,
        recipe: Recipe,
        rewards: Rewards | None = None,
        groups: Tensor | None = None,
    ) -> None:
        """``groups``: with a shared normalisation, the number of each training question's group."""
        self.recipe = recipe
        self.rewards = rewards
        self.groups = groups
        self.network = network.train()

        self.reinforced = recipe.training.objective != "ml"
        self.measures = self._name_measures()
        self._means = [name for name in self.measures if name not in ("bad", "gradient")]
        device = next(network.parameters()).device
        self._device = device

        # Eq. 11: s = log σ² of maximum likelihood and of reinforcement learning.
        self.log_variances = nn.Parameter(torch.zeros(2, device=device))

        self.average: Network | None = None
        if recipe.training.ema:
            self.average = copy.deepcopy(network).eval().requires_grad_(False)

        # Tensors, so that a captured step reads what ``set_place`` puts into them.
        self._average_weight = torch.zeros((), device=device)
        self._share = torch.ones((), device=device)  # of the batch's questions, in ``gradients``
        self._states_weight = torch.zeros((), device=device)
        self._approach = approach
        if recipe.training.compile and device.type == "cuda":
            self._compile()

        # What learns, by name: in checkpoints Adam's tensors go by these names.
        self._trained = {}
        for name, parameter in network.named_parameters():
            if parameter.requires_grad:
                self._trained[name] = parameter

        if self.reinforced and recipe.training.task_weights == "learned":
            self._trained["log_variances"] = self.log_variances

        self._parameters = list(self._trained.values())
        self.optimizer = self._make_optimizer()

    def _name_measures(self) -> tuple[str, ...]:
        """What a step measures, in the order of its vector."""
        names: tuple[str, ...] = BASIC
        if self.reinforced:
            names += REINFORCED
        if self.recipe.network.no_answer:
            names += ("no_answer",)
        if self.groups is not None:
            names += ("shared_norm",)
        if self.recipe.training.teacher:
            names += ("teacher",)
        if self.recipe.training.teacher_states:
            names += ("teacher_states",)

        return names

    def _compile(self) -> None:
        """Fuse what is outside the LSTMs into few kernels."""
        self.network.aligner.compile_blocks()
        self.network.pointer.compile_pointer()

        # A layer that is left out at random cannot be part of a fixed kernel.
        encoder = self.network.contextual
        if isinstance(encoder, TunedEncoder) and not self.recipe.inputs.contextual_layer_dropout:
            encoder.transformer.compile_layers()
            required(self.network.encoder.mix, "mix of layers").compile_mix()

        self._approach = torch.compile(approach)

    @property
    def averaged(self) -> Network:
        """The network that is evaluated and written: the moving average where there is one."""
        return self.network if self.average is None else self.average

    def set_place(
        self,
        step: int,
        total: int,
        halvings: int,
        share: float = 1.0,
        part: int = 0,
    ) -> None:
        """Set the rates, the weight of the average, the random numbers and the share of the batch
        for a step, or for a part of one: its random numbers are its own, whoever computes it."""
        training = self.recipe.training
        # The network's rate, and a tuned encoder's own.
        for group in self.optimizer.param_groups:
            group["lr"].fill_(rate_at(training, group["base"], step, total, halvings))

        self._average_weight.fill_(average_weight(training.ema, step))
        self._share.fill_(share)
        self._states_weight.fill_(training.teacher_states_weight * (1 - step / total))

        # A step in one part draws as it always did: its seed has no number of a part.
        numbers = [training.seed, step]
        if part:
            numbers.append(part)
        torch.manual_seed(mix(*numbers))

    def step(self, batch: Batch[Tensor]) -> dict[str, Tensor]:
        """Learn from a batch; returns the measures of the step, one float32 vector in the order of
        ``measures``.

        A step whose loss or gradient is not finite changes nothing and says so in ``bad``.
        """
        return self._change(self._backward(batch))

    def gradients(self, batch: Batch[Tensor]) -> dict[str, Tensor]:
        """The first half of a step in several parts: as one vector, to be summed over them, the
        gradient of a part of the batch and its measures, all of them means, times its share."""
        measures = self._backward(batch)

        parts = []
        for parameter in self._parameters:
            if parameter.grad is not None:
                parts.append(parameter.grad.flatten())

        parts.append(_stack(measures, self._means))
        return {"vector": torch.cat(parts) * self._share}

    def update(self, vector: Tensor) -> dict[str, Tensor]:
        """The second half: the step that the sum asks for. What is not finite in any part is not
        finite in the sum."""
        # The same order as in ``gradients``.
        place = 0
        for parameter in self._parameters:
            if parameter.grad is not None:
                end = place + parameter.numel()
                parameter.grad = vector[place:end].view_as(parameter)
                place = end

        measures = dict(zip(self._means, vector[place:].unbind(), strict=True))
        return self._change(measures)

    def _backward(self, batch: Batch[Tensor]) -> dict[str, Tensor]:
        """The gradient of the loss on a batch, and its measures, the loss among them."""
        self.optimizer.zero_grad(set_to_none=True)

        is_bf16 = self.recipe.training.precision == "bf16" and self._device.type == "cuda"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=is_bf16):
            pointers = self.network(batch)

        loss, measures = self._loss(batch, pointers)
        loss.backward()  # type: ignore[no-untyped-call]
        return measures | {"loss": loss}

    def _change(self, measures: dict[str, Tensor]) -> dict[str, Tensor]:
        """Follow the gradient, if it and the loss are finite."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        bad = (~(measures["loss"].isfinite() & norm.isfinite())).float()

        # Adam divides the gradients by ``grad_scale``.
        clip = self.recipe.training.clip
        if clip > 0:
            scale = (norm / clip).clamp(min=1.0).float()
            self.optimizer.grad_scale = scale  # type: ignore[attr-defined]

        # Adam leaves everything as it is where this is 1.
        self.optimizer.found_inf = bad  # type: ignore[attr-defined]
        self.optimizer.step()
        self._follow(bad)

        measures |= {"bad": bad, "gradient": norm}
        return {"measures": _stack(measures, self.measures)}

    def _loss(self, batch: Batch[Tensor], pointers: Pointers) -> tuple[Tensor, dict[str, Tensor]]:
        """What the recipe asks to be made smaller, and the measures it is made of."""
        training = self.recipe.training
        target = required(batch.target, "answers")
        log_p1 = _full(pointers.log_p1)
        log_p2 = _full(pointers.log_p2)

        # Eq. 7
        ml = objectives.ml_loss(log_p1, log_p2, target.start, target.end)

        measures = {
            "ml": ml,
            "entropy_start": _entropy(log_p1),
            "entropy_end": _entropy(log_p2),
        }
        if pointers.no_answer is not None:
            log_odds = _full(pointers.no_answer)
            measures["no_answer"] = objectives.no_answer_loss(log_odds, target.start)
            ml = ml + training.no_answer_weight * measures["no_answer"]

        if self.groups is not None:
            measures["shared_norm"] = self._shared_norm(batch, pointers, target)
            ml = ml + measures["shared_norm"]

        if training.teacher:
            measures["teacher"] = self._teach(batch, pointers, target)
            weight = training.teacher_weight
            ml = (1 - weight) * ml + weight * measures["teacher"]

        if training.teacher_states:
            measures["teacher_states"] = self._teach_states(batch, pointers)
            ml = ml + self._states_weight * measures["teacher_states"]

        if not self.reinforced:
            return ml, measures

        # Both tasks at once, with fixed weights or, Eq. 11, with learned ones.
        rl, more = self._reinforce(batch, log_p1, log_p2)
        measures |= more
        if training.task_weights == "fixed":
            return ml + training.reward_weight * rl, measures

        tasks = torch.stack([ml, rl])
        return objectives.weigh_tasks(tasks, self.log_variances), measures

    def _shared_norm(
        self,
        batch: Batch[Tensor],
        pointers: Pointers,
        target: Target[Tensor],
    ) -> Tensor:
        """The loss over all paragraphs of a question, from the mass of all spans of each."""
        assert self.groups is not None
        context = true_steps(batch.context_lengths, batch.context.shape[1])
        total = log_total(pointers.start, context) + log_total(pointers.end, context)

        source = required(batch.source, "numbers of questions")
        group = self.groups[source.index]
        return objectives.shared_norm_loss(_full(total), group, target.start)

    def _teach(self, batch: Batch[Tensor], pointers: Pointers, target: Target[Tensor]) -> Tensor:
        """How far the student is from its teacher, in the same terms as from the references."""
        training = self.recipe.training
        taught = required(batch.taught, "teacher's distributions")
        answered = target.start >= 0
        context = true_steps(batch.context_lengths, batch.context.shape[1])

        loss = torch.zeros((), device=self._device)
        for own, other in ((pointers.log_p1, taught.start), (pointers.log_p2, taught.end)):
            loss = loss + objectives.teacher_loss(
                _full(own),
                other.float(),
                context,
                answered,
                training.teacher_temperature,
            )

        if pointers.no_answer is not None and taught.no_answer is not None:
            odds_loss = objectives.teacher_no_answer_loss(
                _full(pointers.no_answer), taught.no_answer.float()
            )
            loss = loss + training.no_answer_weight * odds_loss

        return loss

    def _teach_states(self, batch: Batch[Tensor], pointers: Pointers) -> Tensor:
        """How far the words' states are from the teacher's, in question and passage."""
        taught = required(batch.taught, "teacher's distributions")

        question = required(taught.question_states, "teacher's states")
        asked = true_steps(batch.question_lengths, batch.question.shape[1])
        loss = objectives.states_loss(
            _full(pointers.reading.V),
            question.float() / SCALE,
            asked,
        )

        context = required(taught.context_states, "teacher's states")
        read = true_steps(batch.context_lengths, batch.context.shape[1])
        return loss + objectives.states_loss(
            _full(required(pointers.reading.U, "states of passages")),
            context.float() / SCALE,
            read,
        )

    def _reinforce(
        self,
        batch: Batch[Tensor],
        log_p1: Tensor,
        log_p2: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Eq. 9 or 10 on one sample per question."""
        training = self.recipe.training
        target = required(batch.target, "answers")
        sample, greedy = self._sample(batch, log_p1.detach(), log_p2.detach())
        reward_sample, reward_greedy = self._rewards(batch, sample, greedy)

        critic = objectives.dcrl if training.objective == "dcrl" else objectives.scst
        reinforced = critic(sample, greedy, reward_sample, reward_greedy)
        log_p = objectives.log_prob(log_p1, log_p2, reinforced.span)
        # A plain sample is drawn from p₁·p₂ renormalised to i ≤ j, so it is scored by that.
        if training.sampler == "plain":
            log_p = log_p - objectives.answer_mass(log_p1, log_p2)

        rl = objectives.policy_loss(log_p, reinforced.weight)
        return rl, {
            "rl": rl,
            "reward_sample": reward_sample.mean(),
            "reward_greedy": reward_greedy.mean(),
            "sample_better": (reward_sample > reward_greedy).float().mean(),
            "suppressed": objectives.suppressed(reinforced, target.start, target.end),
        }

    def _sample(self, batch: Batch[Tensor], log_p1: Tensor, log_p2: Tensor) -> tuple[Span, Span]:
        """Aˢ and Â of every question."""
        training = self.recipe.training
        rows = len(log_p1)

        # Of a plain sampler's list only the best span is wanted: Â.
        k = training.top_k if training.sampler == "top_k" else 1
        longest = self.recipe.decoding.max_length
        listed = top_spans(log_p1, log_p2, batch.context_lengths, longest, k)
        if training.sampler == "top_k":
            noise = objectives.gumbel((rows, k), log_p1)
            return objectives.sample_top_k(*listed, noise)

        noise = objectives.gumbel((rows, 2, log_p1.shape[1]), log_p1)
        sample = objectives.sample_plain(log_p1, log_p2, noise)
        starts, ends, _ = listed
        return sample, Span(starts[:, 0], ends[:, 0])

    def _rewards(self, batch: Batch[Tensor], sample: Span, greedy: Span) -> tuple[Tensor, Tensor]:
        """R(Aˢ) and R(Â), looked up together."""
        source = required(batch.source, "numbers of questions")
        offset = source.offset.repeat(2)
        start = torch.cat([sample.start, greedy.start]) + offset
        end = torch.cat([sample.end, greedy.end]) + offset

        table = required(self.rewards, "rewards")
        rewards = table.f1(source.index.repeat(2), start, end)
        reward_sample, reward_greedy = rewards.chunk(2)
        return reward_sample, reward_greedy

    def _follow(self, bad: Tensor) -> None:
        """Move the average towards the weights, unless the step was bad."""
        if self.average is None:
            return

        with torch.no_grad():
            average: list[Tensor] = list(self.average.parameters())
            fraction = self._average_weight * (1 - bad)
            self._approach(average, list(self.network.parameters()), fraction)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        """Adam, with a rate of its own for a tuned encoder."""
        training = self.recipe.training
        encoder = self.network.contextual
        tuned = set(encoder.parameters()) if encoder is not None else set()
        own = [p for p in self._parameters if p not in tuned]
        others = [p for p in self._parameters if p in tuned]
        rates = (
            (own, training.rate),
            (others, training.contextual_rate),
        )

        groups = []
        for parameters, base in rates:
            if parameters:
                rate = torch.zeros((), device=self._device)
                group = {
                    "params": parameters,
                    "base": base,
                    "lr": rate,
                }
                groups.append(group)

        kind = torch.optim.AdamW if training.weight_decay else torch.optim.Adam
        return kind(
            groups,
            betas=training.betas,
            weight_decay=training.weight_decay,
            fused=True,
            capturable=self._device.type == "cuda",
        )

    def tensors(self) -> dict[str, Tensor]:
        """Everything that learning has changed so far, by name."""
        named = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        if self.average is not None:
            named |= {f"average.{name}": t for name, t in self.average.state_dict().items()}

        named["log_variances"] = self.log_variances

        for name, parameter in self._trained.items():
            for key, value in self.optimizer.state[parameter].items():
                named[f"adam.{name}.{key}"] = value

        return named

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what ``tensors`` gave."""
        self.network.load_state_dict(part(tensors, "network."))
        if self.average is not None:
            self.average.load_state_dict(part(tensors, "average."))

        with torch.no_grad():
            self.log_variances.copy_(tensors["log_variances"])

        # Adam has no tensors of a weight before its first step.
        for name, parameter in self._trained.items():
            saved = part(tensors, f"adam.{name}.")
            if saved:
                state = {key: value.to(self._device) for key, value in saved.items()}
                self.optimizer.state[parameter] = state

    def facts(self) -> dict[str, float | list[float]]:
        """The task weights σ and every block's γ, for the log."""
        # By block, first that of E and then that of B.
        gammas = []
        for name, parameter in self.network.named_parameters():
            if name.endswith(("gamma_E", "gamma_B")):
                gammas.append(parameter.item())

        facts: dict[str, float | list[float]] = {"gamma": gammas}
        if self.reinforced:
            facts["sigma_a"], facts["sigma_b"] = (self.log_variances / 2).exp().tolist()

        return facts


def mix(*numbers: int) -> int:
    """One well-mixed 63-bit seed from several numbers (splitmix64)."""
    value = 0

    for number in numbers:
        value = (value + number + 0x9E3779B97F4A7C15) % 2**64
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) % 2**64
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) % 2**64
        value ^= value >> 31

    return value >> 1


def _full(tensor: Tensor) -> Tensor:
    """In float32 at least, whatever type the network multiplies in."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _entropy(log_p: Tensor) -> Tensor:
    """The mean entropy of some distributions; no gradient flows through it."""
    log_p = log_p.detach()
    return -(log_p.exp() * log_p).sum(1).mean()


def _stack(measures: Mapping[str, Tensor], names: Iterable[str]) -> Tensor:
    """These measures as one vector."""
    return torch.stack([measures[name].detach().float() for name in names])
