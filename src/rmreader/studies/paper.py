"""What the paper printed: the figures of its tables, to set ours beside. Tables are numbered as they are printed."""

from __future__ import annotations

from dataclasses import dataclass

Score = tuple[float, float]
"""EM and F1 in percent."""


@dataclass(frozen=True)
class Architecture:
    """A row of Table 1; 0 rounds where there are none."""

    model: str
    interactive: int
    self_aligning: int
    attention: str


TABLE_1 = (
    Architecture("Match-LSTM", 1, 0, "Serial"),
    Architecture("Rnet", 1, 1, "Serial"),
    Architecture("BiDAF", 1, 0, "Parallel"),
    Architecture("FastQAExt", 1, 1, "Parallel"),
    Architecture("DCN+", 2, 2, "Parallel"),
    Architecture("FusionNet", 3, 1, "Parallel"),
    Architecture("Our Model", 3, 3, "Parallel"),
)


@dataclass(frozen=True)
class Published:
    """A row of Table 2 or 3: two pairs of EM and F1, None where the paper has a dash."""

    model: str
    first: Score | None
    second: Score | None


SINGLE = (  # Table 2: dev, test
    Published("LR Baseline", (40.0, 51.0), (40.4, 51.0)),
    Published("DCN+", (74.5, 83.1), (75.1, 83.1)),
    Published("FusionNet", (75.3, 83.6), (76.0, 83.9)),
    Published("SAN", (76.2, 84.1), (76.8, 84.4)),
    Published("AttentionReader+", None, (77.3, 84.9)),
    Published("BSE", (77.9, 85.6), (78.6, 85.8)),
    Published("R-net+", None, (79.9, 86.5)),
    Published("SLQA+", None, (80.4, 87.0)),
    Published("Hybrid AoA Reader+", None, (80.0, 87.3)),
    Published("R.M-Reader", (78.9, 86.3), (79.5, 86.6)),
)

ENSEMBLE = (
    Published("DCN+", None, (78.8, 86.0)),
    Published("FusionNet", (78.5, 85.8), (79.0, 86.0)),
    Published("SAN", (78.6, 85.8), (79.6, 86.5)),
    Published("BSE", (79.6, 86.6), (81.0, 87.4)),
    Published("AttentionReader+", None, (81.8, 88.2)),
    Published("R-net+", None, (82.6, 88.5)),
    Published("SLQA+", None, (82.4, 88.6)),
    Published("Hybrid AoA Reader+", None, (82.5, 89.3)),
    Published("R.M-Reader", (81.2, 87.9), (82.3, 88.5)),
)

HUMAN = Published("Human", (80.3, 90.5), (82.3, 91.2))

TABLE_3 = (  # AddSent, AddOneSent; * an ensemble
    Published("LR Baseline", (17.0, 23.2), (22.3, 41.8)),
    Published("Match-LSTM*", (24.3, 34.2), (34.8, 41.8)),
    Published("BiDAF*", (29.6, 34.2), (40.7, 46.9)),
    Published("SEDT*", (30.0, 35.0), (40.0, 46.5)),
    Published("ReasoNet*", (34.6, 39.4), (43.6, 49.8)),
    Published("FusionNet*", (46.2, 51.4), (54.7, 60.7)),
    Published("R.M-Reader", (53.0, 58.5), (60.9, 67.0)),
)


@dataclass(frozen=True)
class Ablation:
    """A row of Table 4: what is changed in the network, and how training goes on after maximum likelihood."""

    number: int
    name: str
    network: str
    """Override of the recipe; empty for the full network."""
    second: str
    """Objective of the second stage; empty where there is none."""
    score: Score


TABLE_4 = (
    Ablation(0, "R.M-Reader", "", "dcrl", (78.9, 86.3)),
    Ablation(1, "− Reattention", "network.reattention=false", "dcrl", (78.1, 85.8)),
    Ablation(2, "− DCRL", "", "", (78.2, 85.4)),
    Ablation(3, "− Reattention, DCRL", "network.reattention=false", "", (77.1, 84.8)),
    Ablation(4, "− DCRL, + SCST", "", "scst", (78.5, 85.8)),
    Ablation(5, "Attention: Dot", "network.attention=dot", "dcrl", (78.2, 85.9)),
    Ablation(6, "− Heuristic Sub", "network.fusion_sub=false", "dcrl", (78.1, 85.7)),
    Ablation(7, "− Heuristic Mul", "network.fusion_mul=false", "dcrl", (78.3, 86.0)),
    Ablation(8, "Fusion: Gate", "network.fusion=gate", "dcrl", (77.9, 85.6)),
    Ablation(9, "Fusion: MLP", "network.fusion=mlp", "dcrl", (77.2, 85.2)),
    Ablation(10, "Num of Blocks: 2", "network.blocks=2", "dcrl", (78.7, 86.1)),
    Ablation(11, "Num of Blocks: 4", "network.blocks=4", "dcrl", (78.8, 86.3)),
    Ablation(12, "Num of Blocks: 5", "network.blocks=5", "dcrl", (77.5, 85.2)),
)

TABLE_5 = {  # KL divergence without and with reattention: mean, spread
    "E1 to E2": ((0.695, 0.086), (0.866, 0.074)),
    "E2 to E3": ((0.404, 0.067), (0.450, 0.052)),
    "B1 to B2": ((0.976, 0.092), (1.207, 0.121)),
    "B2 to B3": ((1.179, 0.118), (1.193, 0.097)),
    "E2 to E2*": ((0.650, 0.044), (0.568, 0.059)),
    "E3 to E3*": ((0.536, 0.047), (0.482, 0.035)),
}


def gain(objective: str) -> Score | None:
    """EM and F1 that a second stage gave the paper's full network over maximum likelihood alone; None for none."""
    alone = next(row for row in TABLE_4 if not row.network and not row.second)
    for row in TABLE_4:
        if not row.network and row.second == objective:
            return round(row.score[0] - alone.score[0], 1), round(row.score[1] - alone.score[1], 1)
    return None
