"""What the paper's cell needs, carried to a GPU machine without spaCy and without a network.

    python -m lab.scripts.carry pack DATA ENCODER PACKED    here: 20 minutes of one core
    python -m lab.scripts.carry unpack PACKED WORK          there: seconds

DATA has squad-v1.1/, adversarial/ and glove/; ENCODER is MiniLM's folder (``lab.foundry.fetch``
gets it). PACKED gets the four files of questions as they are, their tags, the word vectors of the
words that occur, and MiniLM in 8 bits. WORK gets data/, encoders/minilm/ and cache/: with
RMREADER_ENCODERS=WORK/encoders and RMREADER_CACHE=WORK/cache, ``lab/scripts/claims.sh cell
WORK/data MINUTES`` runs there.

Tags are found again by the texts that they belong to and by the files of the pipeline that made
them (``rmreader.data.tagged``), and their checksums are checked: where either differs, spaCy is
asked for.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import shutil
import tarfile
from pathlib import Path

from lab.foundry import encoders
from rmreader.core.files.cache import cache_folder
from rmreader.data.encode import encode_file
from rmreader.data.tagged import tag_encoded
from rmreader.text.tags import Tagger

QUESTIONS = (
    "squad-v1.1/train-v1.1.json.gz",
    "squad-v1.1/dev-v1.1.json.gz",
    "adversarial/addsent.json.gz",
    "adversarial/addonesent.json.gz",
)
# What a training has word vectors of: the words of these.
LEARNED = QUESTIONS[:2]
VECTORS = "glove/glove.6B.100d.squad.txt.gz"


def pack(data: Path, encoder: Path, packed: Path) -> None:
    """Write all that travels."""
    tagger = Tagger("english")
    words: set[str] = set()
    with tarfile.open(_made(packed / "tags.tar.xz"), "w:xz") as archive:
        for name in QUESTIONS:
            encoded = encode_file(data / name)
            tag_encoded(encoded, tagger)
            key = f"{tagger.fingerprint}-{encoded.content}"
            archive.add(cache_folder("tags") / key, key)
            shutil.copy(data / name, _made(packed / "data" / name))
            if name in LEARNED:
                words.update(encoded.vocabulary)
    words |= {word.lower() for word in words}
    with (
        gzip.open(data / VECTORS) as whole,
        lzma.open(packed / "glove.txt.xz", "wb") as part,
    ):
        for line in whole:
            if line.partition(b" ")[0].decode("utf-8", "replace") in words:
                part.write(line)
    encoders.pack(encoder, packed / "minilm", parts=1)


def unpack(packed: Path, work: Path) -> None:
    """Lay it out as the commands of the cell expect it."""
    shutil.copytree(packed / "data", work / "data", dirs_exist_ok=True)
    cache = work / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    with tarfile.open(packed / "tags.tar.xz") as archive:
        archive.extractall(cache / "tags", filter="data")
    with (
        lzma.open(packed / "glove.txt.xz") as vectors,
        gzip.open(_made(work / "data" / VECTORS), "wb", compresslevel=1) as file,
    ):
        shutil.copyfileobj(vectors, file)
    encoders.unpack(packed / "minilm", work / "encoders" / "minilm")


def _made(path: Path) -> Path:
    """The path, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def main() -> None:
    """Pack here, unpack there."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.scripts.carry",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack")
    for name in ("data", "encoder", "packed"):
        packing.add_argument(name, type=Path)
    unpacking = verbs.add_parser("unpack")
    for name in ("packed", "work"):
        unpacking.add_argument(name, type=Path)
    args = parser.parse_args()
    if args.verb == "pack":
        pack(args.data, args.encoder, args.packed)
    else:
        unpack(args.packed, args.work)


if __name__ == "__main__":
    main()
