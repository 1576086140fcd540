"""The Reinforced Mnemonic Reader: encoder, iterative aligner, answer pointer."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.data.batch import Batch
from rmreader.model.aligner import Aligner, Round
from rmreader.model.encoder import Encoder, Sizes
from rmreader.model.masking import true_steps
from rmreader.model.pointer import Pointer

__all__ = ["Network", "Pointers", "Round", "Sizes"]


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
    question: Tensor  # [B, n, 2d]: V of Eq. 12, which a student may learn
    context: Tensor  # [B, m, 2d]: U of Eq. 12
    rounds: list[Round] = field(default_factory=list)  # E and B of every block, where asked for


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
        question = true_steps(batch.question_lengths, batch.question.shape[1])
        context = true_steps(batch.context_lengths, batch.context.shape[1])
        contextual = None if self.contextual is None else self.contextual(batch, self.encoder.mix)
        V, U = self.encoder(batch, question, context, contextual)
        R, rounds = self.aligner(U, V, context, question)
        log_p1, log_p2, no_answer, start, end, none = self.pointer(R, V, context, question)
        kept = rounds if keep_attention else []
        return Pointers(log_p1, log_p2, no_answer, start, end, none, V, U, kept)
