"""Make the modules these tests share importable, under names no other room's tests can take."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

for name in ("reference", "small", "encoders"):
    spec = importlib.util.spec_from_file_location(f"model_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors of a few numbers each are slower on several threads, and much slower beside other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
