"""ELMo (Peters et al., 2018) from its published options and HDF5 weights: a
character CNN with highway layers, then bidirectional LSTMs with projection,
clipping and skip connections. Frozen: it is read, never trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_bytes, read_json

# Character ids: the bytes 0-255, then these; all are shifted by one, so that 0 pads a missing word.
SENTENCE_BEGIN = 256
SENTENCE_END = 257
WORD_BEGIN = 258
WORD_END = 259
PAD = 260
# written as words in the published vocabularies
MARKERS = {"<S>": SENTENCE_BEGIN, "</S>": SENTENCE_END}
CHUNK = 1 << 26  # most numbers in the input products of one stretch of steps (256 MB)


@dataclass(frozen=True)
class ElmoOptions:
    """What options.json says about the shape of the network."""

    characters: int  # size of a character embedding
    filters: tuple[tuple[int, int], ...]  # (width, how many)
    highways: int
    activation: Literal["relu", "tanh"]
    max_characters: int
    cell: int  # H
    projection: int  # p
    layers: int
    cell_clip: float
    projection_clip: float
    skip: bool

    @staticmethod
    def read(path: Path) -> ElmoOptions:
        """Read options.json, as published with the weights."""
        wrong = ValueError, TypeError, KeyError, OverflowError
        with (
            user_error_on(
                f"{path}: no such file; ELMo needs its options.json beside the weights.",
                FileNotFoundError,
            ),
            user_error_on(
                f"{path}: not the options of an ELMo model ({{why}}); fetch the published file.",
                *wrong,
            ),
        ):
            tree = read_json(
                path,
                "not the options of an ELMo model: fetch the published file",
                limit=1 << 20,
            )

            cnn = tree["char_cnn"]
            lstm = tree["lstm"]
            options = ElmoOptions(
                characters=int(cnn["embedding"]["dim"]),
                filters=tuple((int(width), int(count)) for width, count in cnn["filters"]),
                highways=int(cnn["n_highway"]),
                activation=cnn["activation"],
                max_characters=int(cnn["max_characters_per_token"]),
                cell=int(lstm["dim"]),
                projection=int(lstm["projection_dim"]),
                layers=int(lstm["n_layers"]),
                cell_clip=float(lstm["cell_clip"]),
                projection_clip=float(lstm["proj_clip"]),
                skip=bool(lstm["use_skip_connections"]),
            )
            options.check()

        return options

    def check(self) -> None:
        """Raise ValueError where a size is not one that an ELMo could have."""
        sizes = [
            self.characters,
            self.max_characters - 2,
            self.cell,
            self.projection,
            self.layers,
        ]
        widths = []
        for width, count in self.filters:
            widths.append(width)
            sizes += [width, count]

        is_in_range = (
            len(widths) > 0
            and min(sizes) >= 1
            and max(sizes) <= 1 << 16
            and max(widths) <= self.max_characters
        )
        is_small = self.layers <= 100 and 0 <= self.highways <= 100 and len(widths) <= 100
        is_clipped = self.cell_clip > 0 and self.projection_clip > 0  # neither is NaN
        if not (is_in_range and is_small and is_clipped):
            raise ValueError("a size is out of range")

        if self.activation not in ("relu", "tanh"):
            raise ValueError(f"the activation is {quoted(self.activation)}")


def character_ids(words: Sequence[str], max_characters: int = 50) -> NDArray[np.int16]:
    """[words, max_characters]: the UTF-8 bytes of each
    word between its two markers; longer words are cut."""
    # 'surrogatepass': a lone surrogate is text too, and must not stop a reader
    ids = np.full((len(words), max_characters), PAD + 1, dtype=np.int16)
    for row, word in zip(ids, words, strict=True):
        if word in MARKERS:
            code = [MARKERS[word]]
        else:
            code = list(word.encode("utf-8", "surrogatepass"))[: max_characters - 2]

        row[: len(code) + 2] = np.array([WORD_BEGIN, *code, WORD_END]) + 1

    return ids


class CharacterCnn(nn.Module):
    """A word's vector from its characters: convolutions,
    max over positions, highways, projection."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        width = sum(count for _, count in options.filters)

        self.embedding = nn.Embedding(PAD + 2, options.characters)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.characters, count, w) for w, count in options.filters
        )
        self.transforms = nn.ModuleList(nn.Linear(width, width) for _ in range(options.highways))
        self.carries = nn.ModuleList(nn.Linear(width, width) for _ in range(options.highways))
        self.projection = nn.Linear(width, options.projection)

    def forward(self, characters: Tensor) -> Tensor:
        """[W, c] -> [W, p], some words at a time: the widest
        published convolution is 44 x 1024 per word."""
        return torch.cat([self._encode(part) for part in torch.split(characters, 1024)])

    def _encode(self, characters: Tensor) -> Tensor:
        """A few words [W, c] -> [W, p]."""
        letters = self.embedding(characters).transpose(1, 2)
        features = []
        for convolution in self.convolutions:
            strongest = convolution(letters).amax(dim=2)
            features.append(self.activation(strongest))

        x = torch.cat(features, dim=1)
        # Highways: a gate decides how much of x is replaced.
        for transform, carry in zip(self.transforms, self.carries, strict=True):
            gate = torch.sigmoid(carry(x))
            x = gate * torch.relu(transform(x)) + (1 - gate) * x

        projected: Tensor = self.projection(x)
        return projected


class ProjectedBiLSTM(nn.Module):
    """One layer, both directions side by side; direction 1 gets its sequences already reversed.

    Its own loop and not ``nn.LSTM(proj_size=…)``, because ELMo clips
    the cell and the projection at every step. Gates are stored in
    the order i, f, o, g, so that one sigmoid serves the first three.
    """

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        p = options.projection
        cell = options.cell
        self.cell_clip = options.cell_clip
        self.projection_clip = options.projection_clip

        self.input = nn.Parameter(torch.empty(2, p, 4 * cell))
        self.recurrent = nn.Parameter(torch.empty(2, p, 4 * cell))
        self.bias = nn.Parameter(torch.empty(2, 1, 4 * cell))
        self.project = nn.Parameter(torch.empty(2, cell, p))

    def forward(self, x: Tensor) -> Tensor:
        """x [2, T, B, p] -> the same shape."""
        _, steps, size, p = x.shape
        cell = self.project.shape[1]
        h = x.new_zeros(2, size, p)
        c = x.new_zeros(2, size, cell)
        outputs = []

        # What the inputs give to the gates is one product for many steps.
        stretch = max(1, CHUNK // (2 * size * 4 * cell))
        for begin in range(0, steps, stretch):
            part = x[:, begin : begin + stretch]
            fed = torch.baddbmm(self.bias, part.reshape(2, -1, p), self.input)
            fed = fed.view(2, part.shape[1], size, 4 * cell)

            for t in range(part.shape[1]):
                gates = torch.baddbmm(fed[:, t], h, self.recurrent)
                i, f, o = torch.sigmoid(gates[..., : 3 * cell]).chunk(3, dim=-1)
                g = torch.tanh(gates[..., 3 * cell :])
                c = (f * c).addcmul_(i, g)
                c.clamp_(-self.cell_clip, self.cell_clip)
                h = torch.bmm(o * torch.tanh(c), self.project)
                h.clamp_(-self.projection_clip, self.projection_clip)
                outputs.append(h)

        return torch.stack(outputs, dim=1)


class Elmo(nn.Module):
    """The whole encoder: ``layers`` vectors of ``size`` numbers for every word."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.options = options
        self.layers = options.layers + 1
        self.size = 2 * options.projection

        self.encoder = CharacterCnn(options)
        self.lstms = nn.ModuleList(ProjectedBiLSTM(options) for _ in range(options.layers))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, characters: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """characters [W, c] of distinct words, words [B, T]
        rows of them, lengths [B] -> [B, T, layers, size].

        Every text is read by itself, between its two sentence markers.
        """
        size, steps = words.shape

        # The words' vectors, then the two markers'.
        markers = torch.from_numpy(character_ids(list(MARKERS), characters.shape[1])).to(characters)
        tokens = self.encoder(torch.cat([characters, markers]))
        begin = len(characters)
        end = len(characters) + 1
        first = words.new_full((size, 1), begin)
        room = words.new_zeros(size, 1)
        marked = torch.cat([first, words, room], dim=1)
        lengths = lengths.view(-1, 1)
        marked.scatter_(1, lengths + 1, end)

        # Reversed within the true length: position t of direction 1 is t from the end.
        places = torch.arange(steps + 2, device=words.device).expand(size, -1)
        mirror = torch.where(places < lengths + 2, lengths + 1 - places, places)
        both = torch.stack([marked, marked.gather(1, mirror)])
        x = tokens[both.transpose(1, 2)]

        ahead = tokens[marked]
        layers = [torch.cat([ahead, ahead], dim=-1)]
        for k, lstm in enumerate(self.lstms):
            y = lstm(x)
            x = y + x if self.options.skip and k > 0 else y

            # Direction 1 is put back into the order of the words.
            forward, backward = x.transpose(1, 2)
            backward = backward.gather(1, mirror.unsqueeze(-1).expand_as(backward))
            layers.append(torch.cat([forward, backward], dim=-1))

        # Without the markers, and zeros where a text is padded.
        vectors = torch.stack(layers, dim=2)[:, 1:-1]
        is_word = (places[:, 2:] - 2 < lengths).view(size, steps, 1, 1)
        return torch.where(is_word, vectors, 0.0)

    def encode(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Texts given as words, at least one each -> [B, T, layers, size] (zeros where padded)."""
        distinct = list(dict.fromkeys(word for text in texts for word in text))
        rows = {word: row for row, word in enumerate(distinct)}
        table = character_ids(distinct, self.options.max_characters)
        in_rows = [np.array([rows[word] for word in text]) for text in texts]
        return self.read(table, in_rows)

    def read(self, table: NDArray[np.int16], texts: Sequence[NDArray[Any]]) -> Tensor:
        """The same for texts as rows of a table of their words' characters."""
        lengths = np.array([len(text) for text in texts])

        # Each distinct word is encoded once.
        rows, flat = np.unique(np.concatenate(texts), return_inverse=True)

        words = np.zeros((len(texts), lengths.max()), np.int64)
        words[np.arange(words.shape[1]) < lengths[:, None]] = flat

        device = self.encoder.embedding.weight.device
        characters = table[rows].astype(np.int64)
        arrays = [torch.from_numpy(array).to(device) for array in (characters, words, lengths)]
        layers: Tensor = self(*arrays)
        return layers


def load_elmo(folder: Path | str) -> Elmo:
    """Read the ELMo of a folder."""
    return read_elmo(*elmo_files(Path(folder)))


def elmo_files(folder: Path) -> tuple[Path, Path]:
    """The one ``*options.json`` and the one ``*weights.hdf5`` of a folder, as published."""
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; it should hold ELMo's options.json and HDF5 weights."
        )

    found = [sorted(folder.glob(pattern)) for pattern in ("*options.json", "*weights.hdf5")]
    if any(len(paths) != 1 for paths in found):
        seen = ", ".join(path.name for paths in found for path in paths) or "neither"
        raise UserError(
            f"{folder}: one *options.json and one *weights.hdf5 are needed (found: {seen})."
        )

    return found[0][0], found[1][0]


def read_elmo(options_path: Path, weights_path: Path) -> Elmo:
    """Build the encoder from its two published files."""
    with user_error_on(
        "ELMo's weights need the package h5py; pip install 'rmreader[elmo]'.", ImportError
    ):
        import h5py

    options = ElmoOptions.read(options_path)
    _check_digest(weights_path)

    # Without memory of its own: the arrays of the file become its weights.
    with torch.device("meta"):
        elmo = Elmo(options)

    # h5py raises each of these.
    damaged = OSError, ValueError, TypeError, KeyError, RuntimeError
    sentence = f"{weights_path}: cannot be read as HDF5 ({{why}}); fetch the file again."
    with user_error_on(sentence, *damaged), h5py.File(weights_path, "r") as file:
        state = _convert(file, options, weights_path)

    elmo.load_state_dict(state, assign=True)
    return elmo.requires_grad_(False).eval()


def _check_digest(weights: Path) -> None:
    """Hold the weights against the digest beside them,
    ``NAME.sha256``, which the download leaves or a person puts."""
    beside = weights.with_name(f"{weights.name}.sha256")
    if not beside.is_file():
        return

    expected = read_bytes(beside, 1 << 12).lower().split()[:1]
    if expected != [file_sha256(weights).encode()]:
        raise UserError(
            f"{weights}: its SHA-256 is not the one in {beside.name}; fetch the file again."
        )


def _array(file: Any, name: str, path: Path) -> NDArray[np.float32]:
    """One array of the file itself: nothing is followed
    to another file, nor unfolded from next to nothing."""
    import h5py

    if name not in file:
        raise UserError(
            f"{path}: {name} is missing; these are not the weights of this options.json."
        )

    # A link on the way could lead to another file.
    steps = name.split("/")
    links = [file.get("/".join(steps[: k + 1]), getlink=True) for k in range(len(steps))]
    array = file[name] if all(isinstance(link, h5py.HardLink) for link in links) else None
    if (
        not isinstance(array, h5py.Dataset)
        or array.external
        or array.is_virtual
        or array.dtype.kind != "f"
    ):
        raise UserError(
            f"{path}: {name} is not an array of numbers in this file; fetch the published file."
        )

    # Compressed arrays may be small in the file and huge in memory.
    if array.nbytes > 200 * array.id.get_storage_size():
        raise UserError(
            f"{path}: {name} claims more numbers than the file holds; fetch the published file."
        )

    return np.asarray(array, dtype=np.float32)


@dataclass(frozen=True)
class _Arrays:
    """The arrays of an HDF5 file, checked."""

    file: Any
    path: Path

    def __call__(self, name: str, *shape: int) -> Tensor:
        """One array, of this shape and finite."""
        array = _array(self.file, name, self.path)
        if array.shape != shape:
            raise UserError(
                f"{self.path}: {name} has shape {array.shape}, options.json asks for {shape}."
            )

        if not np.isfinite(array).all():
            raise UserError(
                f"{self.path}: {name} has numbers that are infinite or none; "
                "fetch the published file."
            )

        return torch.from_numpy(array)


def _convert(file: Any, options: ElmoOptions, path: Path) -> dict[str, Tensor]:
    """The published arrays under the names of our modules."""
    array = _Arrays(file, path)
    state: dict[str, Tensor] = {}

    # Published with the 261 characters alone, or with the row of zeros for padding before them.
    padded = _array(file, "char_embed", path).shape[:1] == (PAD + 2,)
    embedding = array("char_embed", PAD + 2 if padded else PAD + 1, options.characters)
    state["encoder.embedding.weight"] = embedding if padded else F.pad(embedding, (0, 0, 1, 0))

    for k, (w, count) in enumerate(options.filters):
        kernel = array(f"CNN/W_cnn_{k}", 1, w, options.characters, count)
        state[f"encoder.convolutions.{k}.weight"] = kernel[0].permute(2, 1, 0).contiguous()
        state[f"encoder.convolutions.{k}.bias"] = array(f"CNN/b_cnn_{k}", count)

    # TensorFlow's matrices are the transposes of torch's.
    width = sum(count for _, count in options.filters)
    for k in range(options.highways):
        for ours, theirs in (("transforms", "transform"), ("carries", "carry")):
            weight = array(f"CNN_high_{k}/W_{theirs}", width, width)
            state[f"encoder.{ours}.{k}.weight"] = weight.T.contiguous()
            state[f"encoder.{ours}.{k}.bias"] = array(f"CNN_high_{k}/b_{theirs}", width)

    weight = array("CNN_proj/W_proj", width, options.projection)
    state["encoder.projection.weight"] = weight.T.contiguous()
    state["encoder.projection.bias"] = array("CNN_proj/b_proj", options.projection)

    for k in range(options.layers):
        for name, tensor in _convert_lstm(array, options, k).items():
            state[f"lstms.{k}.{name}"] = tensor

    return state


def _convert_lstm(array: _Arrays, options: ElmoOptions, k: int) -> dict[str, Tensor]:
    """The weights of layer k, both directions together."""
    p = options.projection
    cell = options.cell
    names = [f"RNN_{direction}/RNN/MultiRNNCell/Cell{k}/LSTMCell" for direction in (0, 1)]
    weight = torch.stack([_gates(array(f"{name}/W_0", 2 * p, 4 * cell)) for name in names])
    bias = torch.stack([_gates(array(f"{name}/B", 4 * cell)) for name in names])

    # TensorFlow adds the forget bias when it runs.
    bias[:, cell : 2 * cell] += 1
    return {
        "input": weight[:, :p].clone(),
        "recurrent": weight[:, p:].clone(),
        "bias": bias.unsqueeze(1),
        "project": torch.stack([array(f"{name}/W_P_0", cell, p) for name in names]),
    }


def _gates(weight: Tensor) -> Tensor:
    """TensorFlow's gate order i, g, f, o as ours: i, f, o, g.

    Ours has the three that a sigmoid is taken of side by side.
    """
    i, g, f, o = weight.chunk(4, dim=-1)
    return torch.cat([i, f, o, g], dim=-1)
