"""What is used of torch beyond what it promises to keep, each with a plain way to do the same.

Every such part is tried once, before it is used. Where a newer torch has no such part, or one that
does something else, training goes the plain way, more slowly.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

# Tuning takes long and gains nothing on a whole GPU.
_OPTIONS: dict[str, Any] = {"triton.autotune_pointwise": False}


def _works(trial: Callable[[], bool]) -> bool:
    """Whether a part does what it is used for; a part
    that is gone or changed may raise anything."""
    try:
        return trial()
    except Exception:
        return False


def _try_foreach() -> bool:
    one = torch.zeros(2)
    two = torch.ones(2)
    torch._foreach_copy_([one], [two])
    distance = torch._foreach_sub([two], [torch.zeros(2)])
    torch._foreach_mul_(distance, torch.tensor(0.5))
    torch._foreach_add_([one], distance)
    return bool((one == 1.5).all())


def _try_lstm() -> bool:
    data = torch.ones(1, 1)
    sizes = torch.ones(1, dtype=torch.int64)
    zero = torch.zeros(2, 1, 1)
    gates = [torch.zeros(4, 1), torch.zeros(4, 1), torch.ones(4), torch.zeros(4)]
    output, last, _ = _lstm_of_torch(data, sizes, zero, [*gates, *gates], False)
    return bool(output.shape == (1, 2) and last.shape == (2, 1, 1) and (output > 0).all())


def _try_check() -> bool:
    torch._check(True)  # type: ignore[no-untyped-call]
    return True


@functools.cache
def _shapes_work() -> bool:
    """Whether the compiler's settings are where they
    were; asked late, as they take long to load."""
    return _works(_try_shapes)


def _try_shapes() -> bool:
    with _settings():
        return True


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    from torch._dynamo import config
    from torch.fx.experimental import _config as shapes

    # Lengths that are equal by chance are not taken for equal always.
    apart = shapes.patch(use_duck_shape=False)  # type: ignore[attr-defined]
    # All functions that are compiled share the limit of one.
    limit = config.patch(recompile_limit=64)
    with apart, limit:
        yield


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy each source into its target, in one pass where torch can."""
    if FOREACH:
        torch._foreach_copy_(list(targets), list(sources))
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def approach(tensors: list[Tensor], goals: Sequence[Tensor], fraction: Tensor) -> None:
    """Move each tensor so much of the way to its goal; compiled, all of them in one pass."""
    if FOREACH:
        distance = torch._foreach_sub(list(goals), tensors)
        torch._foreach_mul_(distance, fraction)
        torch._foreach_add_(tensors, distance)
        return
    for tensor, goal in zip(tensors, goals, strict=True):
        tensor.add_((goal - tensor) * fraction)


def packed_lstm(
    data: Tensor, sizes: Tensor, zero: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the states and the last ones of a bidirectional LSTM over packed sequences.

    ``weights`` are, for each direction, those of the input, of the state, and both biases.
    """
    if LSTM:
        output, last, _ = _lstm_of_torch(data, sizes, zero, weights, torch.is_grad_enabled())
        return output, last
    hidden = zero.shape[-1]
    # A module without numbers of its own, which is called with ours.
    shell = nn.LSTM(data.shape[-1], hidden, bidirectional=True, device="meta", dtype=data.dtype)
    names = [name for name, _ in shell.named_parameters()]
    packed = nn.utils.rnn.PackedSequence(data, sizes)
    given = dict(zip(names, weights, strict=True))
    output, (last, _) = functional_call(shell, given, (packed, (zero, zero)))
    return output.data, last


def _lstm_of_torch(
    data: Tensor, sizes: Tensor, zero: Tensor, weights: list[Tensor], learns: bool
) -> Any:
    # With biases, one layer, no dropout, both directions.
    return torch._VF.lstm(data, sizes, (zero, zero), weights, True, 1, 0.0, learns, True)


def lend_memory(tensor: Tensor) -> list[Any]:
    """Return what another process maps a tensor's GPU memory by, as plain data."""
    parts = tensor.untyped_storage()._share_cuda_()  # type: ignore[no-untyped-call]
    return [part.hex() if isinstance(part, bytes) else part for part in parts]


def map_memory(lent: Sequence[Any], shape: Sequence[int]) -> Tensor:
    """Map the float16 tensor that another process lends; it may raise anything."""
    # A process that has not used the GPU yet would be killed by what follows.
    torch.cuda.init()  # type: ignore[no-untyped-call]
    parts = [bytes.fromhex(part) if isinstance(part, str) else part for part in lent]
    storage = torch.UntypedStorage._new_shared_cuda(*parts)
    empty = torch.empty(0, dtype=torch.float16, device=storage.device)
    return empty.set_(storage).view(*shape)


@contextlib.contextmanager
def any_lengths() -> Iterator[None]:
    """Compile for lengths that are equal by chance only, and for many at one place."""
    if not _shapes_work():
        yield
        return
    with _settings():
        yield


def promise(holds: bool) -> None:
    """Tell the compiler what is always so."""
    if CHECK:
        torch._check(holds)  # type: ignore[no-untyped-call]


@functools.cache
def compiler_options() -> dict[str, Any]:
    """Return the compiler's options for small kernels; none where it does not know them."""

    def knows_options() -> bool:
        torch.compile(_nothing, options=_OPTIONS)
        return True

    return _OPTIONS if _works(knows_options) else {}


def _nothing() -> None:
    """Do nothing: compiled to see what the compiler takes."""


FOREACH = _works(_try_foreach)
LSTM = _works(_try_lstm)
CHECK = _works(_try_check)
