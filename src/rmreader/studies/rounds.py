"""Table 1: how often a network aligns question and passage, counted in the network itself."""

from __future__ import annotations

from rmreader.config import NetworkConfig
from rmreader.model.aligner import Aligner, AligningBlock
from rmreader.studies import paper
from rmreader.studies.paper import Architecture
from rmreader.studies.report import DASH, Report


def architecture(aligner: Aligner, model: str) -> Architecture:
    """Rounds of interactive and of self alignment; each compares all words with all words at once, in one matrix."""
    blocks = [block for block in aligner.blocks if isinstance(block, AligningBlock)]
    interactive = sum(hasattr(block, "similarity_E") for block in blocks)
    return Architecture(model, interactive, sum(hasattr(block, "similarity_B") for block in blocks), "Parallel")


def study_rounds(config: NetworkConfig) -> Report:
    """Table 1 with the network of a recipe as its last row."""
    aligner = Aligner(config)
    ours = architecture(aligner, "[this network]")
    refined = [t + 1 for t, block in enumerate(aligner.blocks) if getattr(block, "reattention", False)]
    rows = [
        (row.model, str(row.interactive or DASH), str(row.self_aligning or DASH), row.attention)
        for row in (*paper.TABLE_1, ours)
    ]
    which = f"in rounds {', '.join(map(str, refined))}" if refined else "in no round"
    return Report(
        name="rounds",
        title="Table 1: alignment architectures",
        header=("model", "interactive", "self", "attention"),
        rows=rows,
        data={"interactive": ours.interactive, "self": ours.self_aligning, "reattention_in": refined},
        notes=[f"The attentions of the round before are read again {which}."],
    )
