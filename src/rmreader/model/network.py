"""The Reinforced Mnemonic Reader: encoder, iterative aligner, answer pointer."""

from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.data.batch import Batch
from rmreader.model.aligner import Aligner, Round
from rmreader.model.encoder import Encoder, Sizes
from rmreader.model.masking import true_steps
from rmreader.model.pointer import Pointer

__all__ = ["Network", "Pointers", "Reading", "Round", "Sizes"]


@dataclass(frozen=True)
class Reading:
    """What the network makes of a question and its passage before it points."""

    R: Tensor  # [B, m, 2d]: what the last block makes of the passage
    V: Tensor  # [B, n, 2d]: the question's words, Eq. 12
    U: Tensor | None  # [B, m, 2d]: the passage's words, Eq. 12; not kept where only R is needed
    rounds: list[Round] = field(default_factory=list)


@dataclass(frozen=True)
class Pointers:
    """Where the answer starts and ends, as log-probabilities, finite but far down at padding."""

    log_p1: Tensor  # [B, m]
    log_p2: Tensor  # [B, m]
    # [B]: log-odds that the passage holds no answer, where the network has them
    no_answer: Tensor | None
    # [B, m]: logits, by which several passages are compared; of any number at padding
    start: Tensor
    end: Tensor  # [B, m]
    none: Tensor | None  # [B]: logit of no answer, on the scale of a start's plus an end's
    reading: Reading  # what was pointed at

    @property
    def rounds(self) -> list[Round]:
        """E and B of every block, where asked for."""
        return self.reading.rounds


class Network(nn.Module):
    """The whole network, from a batch of words to the pointers.

    ``contextual`` is a tuned encoder: called with the batch and the mix of its
    layers it gives the vectors of the question's and of the context's words,
    [B, n, size] and [B, m, size]. A frozen one's layers come in the batch.
    """

    def __init__(
        self,
        config: NetworkConfig,
        inputs: Inputs,
        sizes: Sizes,
        contextual: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.contextual = contextual
        self.encoder = Encoder(config, inputs, sizes)
        self.aligner = Aligner(config)
        self.pointer = Pointer(config)

    def forward(self, batch: Batch[Tensor], keep_attention: bool = False) -> Pointers:
        """Point at the answers of a batch; ``keep_attention``
        returns E and B of every round beside them."""
        reading = self.read(batch)
        if not keep_attention:
            reading = replace(reading, rounds=[])
        return self.point(batch, reading)

    def read(self, batch: Batch[Tensor]) -> Reading:
        """All but the pointer."""
        question, context = _true_words(batch)
        contextual = None if self.contextual is None else self.contextual(batch, self.encoder.mix)
        V, U = self.encoder(batch, question, context, contextual)
        R, rounds = self.aligner(U, V, context, question)
        return Reading(R, V, U, rounds)

    def point(self, batch: Batch[Tensor], reading: Reading) -> Pointers:
        """The pointer alone, on what was read."""
        question, context = _true_words(batch)
        pointed = self.pointer(reading.R, reading.V, context, question)
        log_p1, log_p2, no_answer, start, end, none = pointed
        return Pointers(log_p1, log_p2, no_answer, start, end, none, reading)


def _true_words(batch: Batch[Tensor]) -> tuple[Tensor, Tensor]:
    """Which words of the questions and of the contexts are no padding."""
    question = true_steps(batch.question_lengths, batch.question.shape[1])
    context = true_steps(batch.context_lengths, batch.context.shape[1])
    return question, context
