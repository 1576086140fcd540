"""What is here, what is missing, and how to get it: versions, devices, kernels, shipped readers, optional extras."""

import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rmreader.core.files.cache import cache_root
from rmreader.core.files.manifest import damage

READERS = Path(__file__).parent.parent / "readers" / "shipped"


@dataclass(frozen=True)
class Extra:
    """An optional part of the package: what it wants, and what of that is not installed."""

    name: str
    packages: tuple[str, ...]
    missing: tuple[str, ...]
    get: str  # the line that installs it; empty where nothing is missing


@dataclass(frozen=True)
class ShippedReader:
    """A trained reader that came with the package."""

    name: str
    bytes: int
    state: str  # "whole", or what is wrong with it


@dataclass(frozen=True)
class Diagnosis:
    """Everything ``rmreader doctor`` knows."""

    versions: dict[str, str]
    devices: list[str]
    kernels: dict[str, str]
    readers: list[ShippedReader]
    extras: list[Extra]
    folders: dict[str, str]


def diagnose() -> Diagnosis:
    """Look around."""
    packages = ("rmreader", "numpy", "onnxruntime", "torch")
    versions = {"python": platform.python_version()} | {name: _version(name) or "not installed" for name in packages}
    return Diagnosis(versions, devices(), kernels(), shipped_readers(), extras(), folders())


def devices() -> list[str]:
    """The processor, and every GPU that torch sees."""
    from rmreader.core.cores import MOST_THREADS, cores

    found = [f"cpu: {platform.machine()}, {cores()} cores, read with {min(cores(), MOST_THREADS)} threads"]
    if _version("torch"):
        import torch

        for k in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(k)
            found.append(f"cuda:{k}: {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    return found


def kernels() -> dict[str, str]:
    """Which implementation runs here, of reading and of training, and why not a faster one."""
    reading = {"8-bit readers": reading_path()}
    if not _version("torch"):
        return {"lstm": "the exported graph alone; training needs torch"} | reading
    import torch

    from rmreader.kernels.lstm import why_not_fused

    device = "cuda" if torch.cuda.is_available() else "cpu"
    obstacle = why_not_fused(torch.zeros(1, device=device), torch.zeros(1, device=device))
    return {"lstm": "fused (Triton)" if obstacle is None else f"plain: {obstacle}"} | reading


def reading_path() -> str:
    """What reads with an 8-bit reader, as the shipped ones are."""
    from rmreader.reading.engine import native

    if (obstacle := native.why_not()) is not None:
        return f"float by ONNX Runtime, slower than in C: {obstacle}"
    kinds = {native.KINDS[kind] for kind in (native.best(), native.best_products())}
    lacks = "" if kinds == {native.KINDS[-1]} else "; AVX-512 with VNNI and bfloat16 would be faster"
    return f"in C ({' and '.join(sorted(kinds))}{lacks})"


def shipped_readers(folder: Path = READERS) -> list[ShippedReader]:
    """The readers inside the package, each checked against the checksums it came with."""
    found = []
    for manifest in sorted(folder.glob("*/reader.json")):
        size = sum(file.stat().st_size for file in manifest.parent.rglob("*") if file.is_file())
        name, _, what = (damage(manifest.parent, manifest.name) or "").partition(": ")
        state = f"incomplete: {name} is missing" if what == "missing" else f"damaged: {name}: {what}"
        found.append(ShippedReader(manifest.parent.name, size, f"{state}; reinstall rmreader" if name else "whole"))
    return found


def extras() -> list[Extra]:
    """The optional extras that the installed package declares, those for its developers left out."""
    wanted: dict[str, list[str]] = {}
    for requirement in metadata.requires("rmreader") or []:
        match = re.match(r"([A-Za-z0-9._-]+).*extra == [\"']([A-Za-z0-9._-]+)[\"']", requirement)
        if match and match[2] != "dev":
            wanted.setdefault(match[2], []).append(match[1])
    found = []
    for name, packages in wanted.items():
        missing = tuple(package for package in packages if _version(package) is None)
        found.append(Extra(name, tuple(packages), missing, f"pip install 'rmreader[{name}]'" if missing else ""))
    return found


def pip_line(module: str) -> str | None:
    """The line that installs a missing module, where it belongs to an extra."""
    name = module.partition(".")[0].replace("_", "")  # opensearchpy is of opensearch-py
    named = {package.replace("-", ""): extra.name for extra in reversed(extras()) for package in extra.packages}
    return f"pip install 'rmreader[{named[name]}]'" if name in named else None


def folders() -> dict[str, str]:
    """Where things are kept."""
    return {"package": str(READERS.parent.parent), "cache": str(cache_root())}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
