"""The fused BiLSTM: right on a GPU or, where there is none, under Triton's interpreter; and compiled as it is meant."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
triton = pytest.importorskip("triton", reason="the package triton is not installed")
gate_tile = pytest.importorskip("rmreader.kernels.fused").gate_tile


def test_it_keeps_its_promises() -> None:
    environment = dict(os.environ) if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "fused_cases.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parent.parent, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


WALK = dict.fromkeys(("SAVE", "OUTPUT", "FINAL", "LOW", "FAST"), True) | {
    "H": 100,
    "HP": 128,
    "HS": 104,
    "DENSE": False,
}
LETTERS = WALK | {"H": 50, "HP": 64, "HS": 56, "DENSE": True, "OUTPUT": False}


def compiled(kernel: str, values: dict[str, int], warps: int, folder: Path) -> tuple[int, str, str]:
    """Bytes of shared memory, use of resources and machine code of a kernel on Hopper."""
    code = folder / "compile.py"
    code.write_text(COMPILE, encoding="utf-8")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")}
    words = [kernel, str(folder / "kernel.cubin"), json.dumps(values), str(warps)]
    command = [sys.executable, "-W", "ignore", str(code), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    dump = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not dump.exists():
        pytest.skip("this triton brings no cuobjdump")
    usage, listing = (
        subprocess.run([dump, option, folder / "kernel.cubin"], capture_output=True, text=True, check=True).stdout
        for option in ("-res-usage", "-sass")
    )
    return int(done.stdout), usage, listing


@pytest.mark.parametrize("values", [WALK, LETTERS], ids=["words", "letters"])
@pytest.mark.parametrize("kernel", ["bilstm_forward", "bilstm_backward"])
def test_compiled_for_hopper_its_weights_stay_in_registers(kernel: str, values: dict[str, int], tmp_path: Path) -> None:
    shared, usage, code_listing = compiled(kernel, values, values["HP"] // 16, tmp_path)
    assert "STACK:0" in usage  # nothing spilled
    assert shared < 64 * 1024  # bytes of shared memory: the weights, 128 KB, are not in it
    assert re.search("HG?MMA", code_listing)  # tensor cores
    first, last = walk(code_listing)
    assert len(re.findall("LDG", code_listing[first:last])) < 10  # gates' inputs; the weights alone would be 64


@pytest.mark.parametrize("width", [8, 56, 208])
def test_compiled_for_hopper_the_gates_inputs_are_read_and_written_in_wide_pieces(width: int, tmp_path: Path) -> None:
    values = {"K": width, "R": 2 * width, **gate_tile(width)}
    _, usage, listing = compiled("gate_inputs", values, 4, tmp_path)
    assert "STACK:0" in usage
    assert re.search("HG?MMA", listing)
    moves = re.findall(r"\b(?:LDG|LDGSTS|STG)\.\S+", listing)
    assert moves
    assert all(".128" in move for move in moves), moves


def walk(listing: str) -> tuple[int, int]:
    """Begin and end, within the listing, of the loop over the steps: the longest jump back."""
    place = {int(m[1], 16): m.start() for m in re.finditer(r"^\s+/\*([0-9a-f]{4,})\*/\s", listing, re.MULTILINE)}
    jumps = re.finditer(r"^\s+/\*([0-9a-f]{4,})\*/\s.*\bBRA\b.*?0x([0-9a-f]+)", listing, re.MULTILINE)
    back = [(int(m[2], 16), int(m[1], 16)) for m in jumps if int(m[2], 16) < int(m[1], 16)]
    begin, end = max(back, key=lambda jump: jump[1] - jump[0])
    return place[begin], place[end]


COMPILE = """
import json
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rmreader.kernels import triton_lstm

kernel = getattr(triton_lstm, sys.argv[1])
types = dict.fromkeys(("lengths", "starts"), "*i64") | dict.fromkeys("BTRNG", "i32")
types |= dict.fromkeys(("gates", "cells", "inputs"), "*fp16")
types |= dict.fromkeys(("output", "h_before", "d_output", "d_inputs", "rows", "weights"), "*bf16")
values = json.loads(sys.argv[3])
names = [p.name for p in kernel.params]
source = ASTSource(
    fn=kernel,
    signature={n: "constexpr" if n in values else types.get(n, "*fp32") for n in names},
    constexprs={(k,): values[n] for k, n in enumerate(names) if n in values},
    attrs={(k,): [["tt.divisibility", 16]] for k, n in enumerate(names) if n not in values and n not in "BTN"},
)
options = {"num_warps": int(sys.argv[4]), "num_stages": 1}
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
open(sys.argv[2], "wb").write(compiled.asm["cubin"])
print(compiled.metadata.shared)
"""
