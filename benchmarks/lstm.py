"""The BiLSTM alone on a GPU: is the fused one right, and how fast is it beside nn.LSTM on packed sequences?

    python benchmarks/lstm.py [--quick] [--json FILE]

First checks the fused kernels against the plain path in float64 (outputs, final states, all gradients), then times
forward and backward on the same inputs, in one process. Times are medians by CUDA events; `replayed` is as a captured
graph, and `again` in the file is the same measurement a second time: smaller differences are noise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

missing: str | None = None
try:
    import torch
    from torch import Tensor, nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    from rmreader.kernels.fused import Variant, fused_bilstm
    from rmreader.kernels.lstm import bilstm
except ModuleNotFoundError as error:  # --help needs none of them
    missing = error.name

RATE, BANDWIDTH = 788e12, 4.3e12  # bf16 FLOP/s and bytes/s of an H200, as measured through PyTorch
STEP = 0.5e-6  # a step of the walk as estimated from the machine code: see log/2026-11-15-gpu.md
DEVICE = "cuda"
TOLERANCE = {"fp32": 1e-5, "bf16": 1e-2}
NAMES = ("output", "final", "d_x", "d_weight_ih", "d_weight_hh", "d_bias")


@dataclass(frozen=True)
class Case:
    """One layer: batch B, steps T, input size D, hidden size H; sequences are at least ``shortest`` long."""

    name: str
    B: int
    T: int
    D: int
    H: int
    shortest: int

    def floor(self) -> tuple[float, float]:
        """Milliseconds, forward and backward: for arithmetic or memory, whichever is more; for the dependent steps."""
        rows = 2 * self.B * self.T
        flop = 3 * 2 * rows * 4 * self.H * (self.D + self.H)
        numbers = 4 * self.B * self.T * self.D + rows * self.H * (4 * 5 + 6)  # x and dx twice; gates; output and cells
        return 1e3 * max(flop / RATE, 2 * numbers / BANDWIDTH), 1e3 * 2 * self.T * STEP


PAPER = Case("passage", 48, 150, 200, 100, 100)
CASES = [PAPER, Case("encoder", 48, 150, 421, 100, 100), Case("characters", 3000, 16, 50, 50, 1)]
CHECKS = [
    Case("passage", 48, 150, 200, 100, 1),
    Case("characters", 300, 16, 50, 50, 1),
    Case("widest", 21, 33, 37, 128, 1),
    Case("narrow", 9, 12, 3, 7, 1),
]


def problem(case: Case, seed: int, scale: float = 1.0) -> tuple[list[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).to(DEVICE)

    weights = [normal(2, 4 * case.H, case.D) * case.D**-0.5, normal(2, 4 * case.H, case.H) * case.H**-0.5]
    lengths = torch.randint(case.shortest, case.T + 1, (case.B,), generator=draw)
    lengths[draw.initial_seed() % case.B] = case.T
    return [scale * normal(case.B, case.T, case.D), *weights, normal(2, 4 * case.H)], lengths.to(DEVICE)


def everything(run: Callable[..., Any], tensors: list[Tensor], lengths: Tensor, *more: Any) -> list[Tensor]:
    """Output, final states and the gradients of all inputs, for random gradients of the two."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    output, final = run(leaves[0], lengths, *leaves[1:], *more)
    draw = torch.Generator().manual_seed(7)
    gradients = [torch.randn(tensor.shape, generator=draw).bfloat16().to(tensor) for tensor in (output, final)]
    return [output.detach(), final.detach(), *torch.autograd.grad([output, final], leaves, gradients)]


def check() -> list[dict[str, Any]]:
    """Relative errors against float64, for fresh random inputs; extreme inputs must stay finite."""
    found = []
    for seed, case in enumerate(CHECKS):
        tensors, lengths = problem(case, seed)
        expected = everything(bilstm, [tensor.double() for tensor in tensors], lengths, "plain")
        for precision, fast in (("fp32", False), ("bf16", True), ("bf16", False))[: 3 if case in CHECKS[:2] else 2]:
            got = everything(fused_bilstm, tensors, lengths, precision, None, Variant(fast=fast))
            again = everything(fused_bilstm, tensors, lengths, precision, None, Variant(fast=fast))
            errors = {n: float((a - b).norm() / b.norm()) for n, a, b in zip(NAMES, got, expected, strict=True)}
            outside = torch.arange(case.T, device=DEVICE) >= lengths[:, None]
            extreme = everything(fused_bilstm, *problem(case, seed, scale=1e4), precision, None, Variant(fast=fast))
            fine = (
                max(errors.values()) < TOLERANCE[precision]  # False for NaN
                and not got[0][outside].any()
                and not got[2][outside].any()
                and all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
                and all(bool(tensor.isfinite().all()) for tensor in extreme)
            )
            found.append({"case": case.name, "precision": precision, "fast": fast, "errors": errors, "fine": fine})
            worst = max(errors, key=lambda name: errors[name])
            print(
                f"{case.name:12} {precision} {'fast' if fast else '    '}  {'ok  ' if fine else 'WRONG'}  "
                f"worst {worst} {errors[worst]:.1e}   " + " ".join(f"{e:.0e}" for e in errors.values()),
                flush=True,
            )
    return found


def milliseconds(act: Callable[[], object], repeats: int = 15) -> float:
    """Median time of an act, by events."""
    for _ in range(3):
        act()
    spans = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        act()
        end.record()
        end.synchronize()
        spans.append(begin.elapsed_time(end))
    return statistics.median(spans)


def replayed(act: Callable[[], object]) -> Callable[[], object]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        act()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph.replay


def packed(case: Case, tensors: list[Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """nn.LSTM on packed sequences, as everybody writes it."""
    module = nn.LSTM(case.D, case.H, batch_first=True, bidirectional=True).to(DEVICE)

    def run(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        rows = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, (last, _) = module(rows)
        return pad_packed_sequence(output, batch_first=True, total_length=case.T)[0], last.transpose(0, 1).flatten(1)

    run.parameters = list(module.parameters())  # type: ignore[attr-defined]
    return run


def padded(case: Case, tensors: list[Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """nn.LSTM that runs through the padding: wrong, but the fastest that cuDNN has."""
    module = nn.LSTM(case.D, case.H, batch_first=True, bidirectional=True).to(DEVICE)

    def run(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        output, (last, _) = module(x)
        return output, last.transpose(0, 1).flatten(1)

    run.parameters = list(module.parameters())  # type: ignore[attr-defined]
    return run


def act(run: Callable[..., Any], tensors: list[Tensor], lengths: Tensor, back: bool = True) -> Callable[[], object]:
    """Forward, and backward to the input and all weights."""
    x = tensors[0].detach().requires_grad_()
    weights = getattr(run, "parameters", None)
    own = [] if weights else [tensor.detach().requires_grad_() for tensor in tensors[1:]]
    leaves = [x, *(weights or own)]
    output, final = run(x, lengths, *own)
    gradients = [torch.randn_like(output), torch.randn_like(final)]

    def both() -> object:
        return torch.autograd.grad(list(run(x, lengths, *own)), leaves, gradients)

    def forward() -> object:
        return run(x, lengths, *own)

    return both if back else forward


def peak(act: Callable[[], object]) -> float:
    """MiB that an act allocates at most beyond what was there before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    act()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def fused(precision: str, **choices: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    return lambda x, lengths, *weights: fused_bilstm(x, lengths, *weights, precision, variant=Variant(**choices))


def compare(case: Case) -> list[dict[str, Any]]:
    """One table: every way of running this layer, on the same inputs."""
    tensors, lengths = problem(case, 11)
    work, steps = case.floor()
    print(
        f"\n{case.name}: B={case.B} T={case.T} D={case.D} H={case.H}, lengths {lengths.min()}-{lengths.max()}; floor "
        f"{work:.3f} ms of work, {steps:.3f} ms of {2 * case.T} dependent steps, forward and backward\n"
        f"{'':28}{'forward':>9}{'both':>9}{'replayed':>10}{'ratio':>8}{'MiB':>7}"
    )
    ways: list[tuple[str, Callable[..., Any], bool]] = [
        ("nn.LSTM packed", packed(case, tensors), False),
        ("nn.LSTM padded (wrong)", padded(case, tensors), False),
        ("fused fp32", fused("fp32"), True),
        ("fused bf16", fused("bf16"), True),
        ("fused bf16, exact tanh", fused("bf16", fast=False), True),
    ]
    if case.H <= 64:
        ways += [("fused bf16, 168 registers", fused("bf16", registers=168), True)]
    else:
        ways += [("fused bf16, 16 warps", fused("bf16", warps=16), True)]
    rows: list[dict[str, Any]] = []
    for name, run, graph in ways:
        both = act(run, tensors, lengths)
        row = {"case": case.name, "way": name, "forward": milliseconds(act(run, tensors, lengths, back=False))}
        row |= {"both": milliseconds(both), "again": milliseconds(both), "MiB": peak(both)}
        row["replayed"] = milliseconds(replayed(both)) if graph else None
        rows.append(row)
        row["ratio"] = rows[0]["both"] / (row["replayed"] or row["both"])
        shown = f"{row['replayed']:10.3f}" if graph else f"{'-':>10}"
        print(
            f"{name:28}{row['forward']:9.3f}{row['both']:9.3f}{shown}{row['ratio']:7.1f}x{row['MiB']:7.0f}", flush=True
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the paper's case alone, unchecked")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    if missing or not torch.cuda.is_available():
        obstacle = f"{missing} is not installed here" if missing else "no GPU here"
        print(f"benchmarks/lstm.py: {obstacle}.", file=sys.stderr)
        return 1
    began = time.monotonic()
    checks = [] if options.quick else check()
    tables = [row for case in ([PAPER] if options.quick else CASES) for row in compare(case)]
    fine = all(found["fine"] for found in checks)
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}; {time.monotonic() - began:.0f} s", end="; ")
    print("all checks passed" if fine else "SOME CHECKS FAILED")
    if options.json:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        options.json.write_text(json.dumps(facts | {"checks": checks, "times": tables}, indent=1), encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
