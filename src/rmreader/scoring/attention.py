"""Attention logits as distributions.

E is [n, m] (question rows, context columns) and B is [m, m], of one question, both unnormalised.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def log_attention(logits: Floats, axis: int = 0) -> NDArray[np.float64]:
    """log softmax(X_:j) of every column j, or of every row where the axis is 1."""
    x = np.asarray(logits, np.float64)
    x = x - x.max(axis=axis, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis=axis, keepdims=True)))


def attention(logits: Floats, axis: int = 0) -> NDArray[np.float64]:
    """softmax(X_:j) of every column j, or of every row."""
    return np.asarray(np.exp(log_attention(logits, axis)))
