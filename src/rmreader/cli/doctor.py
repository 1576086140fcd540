"""What is installed, what is missing, and how to get it."""

import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rmreader.core.files.cache import cache_root
from rmreader.core.files.manifest import damage

# Such as: uvicorn>=0.30; extra == "serve"
_OF_EXTRA = re.compile(
    r"(?P<package>[A-Za-z0-9._-]+)(\[(?P<inner>[^\]]*)\])?"
    r".*extra == [\"'](?P<extra>[A-Za-z0-9._-]+)[\"']"
)
# The app alone is for those who bring a server; our commands need one.
_WHOLE = {"asgi": "serve"}
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
    versions = {"python": platform.python_version()}
    for name in ("rmreader", "numpy", "onnxruntime", "torch"):
        versions[name] = _version(name) or "not installed"
    return Diagnosis(
        versions=versions,
        devices=devices(),
        kernels=kernels(),
        readers=shipped_readers(),
        extras=extras(),
        folders=folders(),
    )


def devices() -> list[str]:
    """Return the processor, and every GPU that torch sees."""
    from rmreader.core.cores import MOST_THREADS, cores

    threads = min(cores(), MOST_THREADS)
    lines = [f"cpu: {platform.machine()}, {cores()} cores, read with {threads} threads"]
    if _version("torch"):
        import torch

        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            memory = properties.total_memory / 2**30
            lines.append(f"cuda:{number}: {properties.name}, {memory:.0f} GiB")
    return lines


def kernels() -> dict[str, str]:
    """Return which implementation runs here, for reading and training, and why no faster one."""
    return {"lstm": _training_path(), "8-bit readers": reading_path()}


def _training_path() -> str:
    """Say what trains the LSTMs here."""
    if not _version("torch"):
        return "the exported graph alone; training needs torch"
    import torch

    from rmreader.kernels.lstm import why_not_fused

    device = "cuda" if torch.cuda.is_available() else "cpu"
    obstacle = why_not_fused(torch.zeros(1, device=device), torch.zeros(1, device=device))
    return "fused (Triton)" if obstacle is None else f"plain: {obstacle}"


def reading_path() -> str:
    """Say what reads with an 8-bit reader, as the shipped ones are."""
    from rmreader.reading.engine import native

    obstacle = native.why_not()
    if obstacle is not None:
        return f"float by ONNX Runtime, slower than in C: {obstacle}"
    kind = native.KINDS[native.best()]
    lacks = ""
    if kind != native.KINDS[-1]:
        lacks = f"; {native.KINDS[-1]} would be faster"
    return f"in C ({kind}{lacks})"


def shipped_readers(folder: Path = READERS) -> list[ShippedReader]:
    """Return the readers inside the package, each checked against its checksums."""
    readers = []
    for manifest in sorted(folder.glob("*/reader.json")):
        reader = manifest.parent
        size = sum(file.stat().st_size for file in reader.rglob("*") if file.is_file())
        readers.append(ShippedReader(reader.name, size, _state(reader, manifest.name)))
    return readers


def _state(reader: Path, manifest: str) -> str:
    """Say whether a shipped reader is whole, or what is wrong and the remedy."""
    problem = damage(reader, manifest)
    if problem is None:
        return "whole"
    name, _, what = problem.partition(": ")
    if what == "missing":
        return f"incomplete: {name} is missing; reinstall rmreader"
    return f"damaged: {name}: {what}; reinstall rmreader"


def extras() -> list[Extra]:
    """Return the optional extras that the installed package declares, but those for developers."""
    packages_of: dict[str, list[str]] = {}
    inner_extras: list[tuple[str, str]] = []
    for requirement in metadata.requires("rmreader") or []:
        match = _OF_EXTRA.match(requirement)
        if match is None or match["extra"] == "dev":
            continue
        packages = packages_of.setdefault(match["extra"], [])
        if match["package"] == "rmreader":  # one extra that holds another: rmreader[asgi]
            inner_extras.append((match["extra"], match["inner"]))
        else:
            packages.append(match["package"])
    for outer, inner in inner_extras:
        packages_of[outer] = packages_of[inner] + packages_of[outer]
    extras = []
    for name, packages in packages_of.items():
        missing = tuple(package for package in packages if _version(package) is None)
        get = f"pip install 'rmreader[{name}]'" if missing else ""
        extras.append(Extra(name, tuple(packages), missing, get))
    return extras


def pip_line(module: str) -> str | None:
    """Return the line that installs a missing module, where it belongs to an extra."""
    name = module.partition(".")[0].replace("_", "")  # opensearchpy is of opensearch-py
    for extra in extras():
        if any(package.replace("-", "") == name for package in extra.packages):
            return f"pip install 'rmreader[{_WHOLE.get(extra.name, extra.name)}]'"
    return None


def folders() -> dict[str, str]:
    """Return where things are kept."""
    return {"package": str(READERS.parent.parent), "cache": str(cache_root())}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
