"""What the stages share: how long texts may be, and how a table is written."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 16  # pieces; a part of a passage is two blocks
MOST_BLOCKS = 24  # of a passage that are looked at


def quantize(table: np.ndarray) -> dict[str, Any]:
    """A table in eight bits, with a scale for each row."""
    scale = np.abs(table).max(axis=1) / 127 + 1e-12
    codes = np.round(table / scale[:, None]).astype(np.int8)
    return {"vectors": codes, "scale": scale.astype(np.float32)}
