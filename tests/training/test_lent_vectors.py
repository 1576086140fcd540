"""Vectors on a GPU that one process lends to others; whatever fails, a training has its own copy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.processes import started

from rmreader.training.lent_vectors import _is_same, borrow, lend

GPU = torch.device("cuda")
LENDER = """
import sys
from pathlib import Path
import numpy as np
import torch
from rmreader.training.lent_vectors import lend

folder = Path(sys.argv[1])
table = torch.from_numpy(np.fromfile(folder / "context.f16", np.float16).reshape(1000, 7, 384))
with lend(folder, [table.cuda()]):
    print("lent", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = np.random.default_rng(1).normal(size=(1000, 7, 384)).astype(np.float16)
    table.tofile(tmp_path / "context.f16")
    return tmp_path / "context.f16"


def table_of(file: Path) -> torch.Tensor:
    return torch.from_numpy(np.fromfile(file, np.float16).reshape(1000, 7, 384))


def test_nothing_is_borrowed_where_nothing_is_lent(file: Path) -> None:
    assert borrow(file.parent, [file], GPU) is None
    assert borrow(file.parent, [file], torch.device("cpu")) is None


@pytest.mark.parametrize("process", [os.getpid(), 2**22 + 1], ids=["ours", "nobody"])
def test_what_cannot_be_mapped_is_not_borrowed(file: Path, process: int, capsys: pytest.CaptureFixture[str]) -> None:
    memory = [0, "00" * 64, 5376000, 0, "2f6e6f6e65", 0, "00" * 64, False]
    note = {"process": process, "tables": [{"memory": memory, "shape": [1000, 7, 384]}]}
    (file.parent / "lent.json").write_text(json.dumps(note), encoding="utf-8")
    assert borrow(file.parent, [file], GPU) is None
    assert "cannot be borrowed" in capsys.readouterr().err


def test_borrowed_rows_are_compared_with_those_on_disk(file: Path) -> None:
    table = table_of(file)
    assert _is_same(table, file)
    table[:, 3, 5] += 1
    assert not _is_same(table, file)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_another_process_reads_the_lenders_memory(file: Path) -> None:
    words = [sys.executable, "-c", LENDER, str(file.parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(words, text=True, **pipes) as lender:
        assert lender.stdout is not None
        assert lender.stdin is not None
        assert lender.stdout.readline() == "lent\n"
        tables = borrow(file.parent, [file], GPU)
        assert tables is not None
        assert torch.equal(tables[0].cpu(), table_of(file))
        lender.stdin.close()
        lender.wait(timeout=60)
    assert not (file.parent / "lent.json").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this is about machines without a GPU")
def test_only_memory_of_a_gpu_is_lent(file: Path) -> None:
    with pytest.raises(Exception, match=r"CUDA|cuda"), lend(file.parent, [table_of(file)]):
        pass
    assert not (file.parent / "lent.json").exists()
