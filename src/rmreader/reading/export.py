"""A trained reader for elsewhere: as one .onnx file for any runtime, or as a smaller folder that is
fit to ship."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.outputs import file_to_write, folder_to_write
from rmreader.readers.folder import Folder, open_folder, write_ensemble, write_reader
from rmreader.readers.weights import Storage, Weights
from rmreader.reading.answers import text_of
from rmreader.reading.engine.contextual import AddedInputs, embed, encode, load_bert, why_torch
from rmreader.reading.engine.engines import EncoderInput, OnnxEngine
from rmreader.reading.engine.graph import Layers, give_rounds, network
from rmreader.reading.engine.inputs import character_states, session
from rmreader.reading.engine.onnxfile import FLOAT, Graph
from rmreader.reading.reader import Reader
from rmreader.reading.spans import log_softmax
from rmreader.text.tokens import tokenize

TOLERANCE = 1e-4  # of log-probabilities, between a graph and the network it was made of
HALF_TOLERANCE = (
    1e-3  # where both round vectors to 16 bits on the way, now and then to different sides
)
ALLOWED_LOSS = 0.1  # of F1, in percent, for 8-bit products

_SAMPLES = [
    ("Who?", "Ada."),
    (
        "Which team won?",
        "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third title.",
    ),
    (
        "Wo steht „das“ geschrieben, naïve Ärzte?",
        "Überall 1. \n\n 中文 and ½ of 3,000 zzyzx ☃, e.g. here (see II).",
    ),
    (
        "Where was the game " * 10 + "played?",
        "It was played in Santa Clara, California, on February 7, 2016. " * 25,
    ),
]


def export_onnx(name_or_path: str | Path, out: Path) -> float:
    """Write a reader as one .onnx file, attentions included; returns how far it is from the network
    (see ``check``).

    Inputs: ``question`` [n] and ``context`` [m] are rows of the word table ``vectors`` [W, dim],
    ``characters`` [W, c], ``lengths`` [W], ``keys`` [W] (and ``trainable`` [W]), as
    ``Lexicon.look_up`` gives it. With tags ``question_tags`` [n, 2] and ``context_tags`` [m, 2].
    With a BERT encoder one window of it, ``pieces`` and ``types`` [s], and where the words' first
    pieces are in it, ``question_pieces`` [n] and ``context_pieces`` [m]; where question and passage
    are encoded apart, ``query_pieces`` [t] are the question's. Outputs: ``log_p1`` and ``log_p2``
    [m]; ``none`` [1], the logit of no answer, if the network has it; ``E1`` [n, m], ``B1`` [m, m],
    ``E2``, … unnormalised.
    """
    folder = open_folder(name_or_path)
    real = file_to_write(out, folder.path)
    if (obstacle := why_torch(folder)) is not None:
        raise UserError(
            f"{folder.path}: a reader with {obstacle} cannot be exported; it runs in torch alone."
        )
    inputs = folder.recipe.inputs
    extras = (
        AddedInputs(folder, folder.weights(), int8=False)
        if inputs.tags or inputs.contextual
        else None
    )
    model = whole_graph(folder)
    difference = check(folder, model, extras)
    write_whole(real, model)
    return difference


def whole_graph(folder: Folder) -> bytes:
    """The network with its word inputs, in one graph."""
    g, w, inputs = Graph(), folder.weights(), folder.recipe.inputs
    question, context = g.input("question", "int32", ("n",)), g.input("context", "int32", ("m",))
    vectors = g.input("vectors", "float32", ("W", "dim"))
    if "encoder.words.weight" in w:
        rows = g.input("trainable", "int32", ("W",))
        vectors = g.op("Add", vectors, g.op("Gather", w["encoder.words.weight"], rows))
    layers, table = Layers(g, w), [vectors]
    if inputs.characters:
        characters, lengths = (
            g.input("characters", "int32", ("W", "c")),
            g.input("lengths", "int32", ("W",)),
        )
        table.append(character_states(layers, characters, lengths))
    words = g.op("Concat", *table, axis=1)
    xs = [g.op("Gather", words, text) for text in (question, context)]
    if inputs.exact_match:
        keys = g.input("keys", "int32", ("W",))
        asked, read = (g.op("Gather", keys, text) for text in (question, context))
        same = g.op(
            "Equal", g.op("Unsqueeze", asked, np.array([1])), g.op("Unsqueeze", read, np.array([0]))
        )
        matches = g.op("Cast", same, to=FLOAT)  # [n, m]
        columns = [g.op("ReduceMax", matches, np.array([1]), keepdims=1)]
        columns.append(g.op("Transpose", g.op("ReduceMax", matches, np.array([0]), keepdims=1)))
        xs = [g.op("Concat", x, column, axis=1) for x, column in zip(xs, columns, strict=True)]
    if inputs.tags or inputs.contextual:
        xs = [
            g.op("Concat", x, *more, axis=1)
            for x, more in zip(xs, _extra_inputs(g, w, folder), strict=True)
        ]
    (start, end, *none), rounds = network(layers, folder.recipe.network, *xs)
    g.output("log_p1", g.op("LogSoftmax", start, axis=-1), ("m",))
    g.output("log_p2", g.op("LogSoftmax", end, axis=-1), ("m",))
    if none:
        g.output("none", none[0], (1,))
    give_rounds(g, rounds)
    return g.to_bytes()


def _extra_inputs(g: Graph, w: Weights, folder: Folder) -> tuple[list[str], list[str]]:
    """What a question's and a passage's words are told beyond the word table: embeddings of tags,
    encoder's vectors."""
    found: tuple[list[str], list[str]] = ([], [])
    texts, inputs = (
        list(zip(found, ("question", "context"), ("n", "m"), strict=True)),
        folder.recipe.inputs,
    )
    if inputs.tags:
        for more, text, length in texts:
            columns = g.ops(
                "Split", 2, g.input(f"{text}_tags", "int32", (length, 2)), axis=1, num_outputs=2
            )
            for kind, column in zip(("pos", "ner"), columns, strict=True):
                more.append(
                    g.op(
                        "Gather",
                        w[f"encoder.{kind}.weight"],
                        g.op("Squeeze", column, np.array([1])),
                    )
                )
    if inputs.contextual:
        bert, apart = load_bert(folder, w), inputs.contextual_pairing == "apart"
        pieces, types = g.input("pieces", "int32", ("s",)), g.input("types", "int32", ("s",))
        main = query = encode(g, bert, embed(g, bert, pieces, types))
        if apart:
            asked = g.input("query_pieces", "int32", ("t",))
            query = encode(
                g, bert, embed(g, bert, asked, g.op("Mul", asked, np.array(0, np.int32)))
            )
        for (more, text, length), vectors in zip(texts, (query, main), strict=True):
            more.append(g.op("Gather", vectors, g.input(f"{text}_pieces", "int32", (length,))))
    return found


def _extra_feeds(pair: EncoderInput, extras: AddedInputs) -> dict[str, NDArray[Any]] | None:
    """The same inputs for one question; None where it is longer than the encoder's window."""
    texts, feeds = (pair.question_words, pair.context_words), dict[str, NDArray[Any]]()
    if extras.tagger is not None:
        tags = (ids.astype(np.int32) for ids in extras.tagger.tag(texts))
        feeds |= dict(zip(("question_tags", "context_tags"), tags, strict=True))
    if extras.encoder is not None:
        laid = extras.encoder.lay_out(*texts)
        if len(laid.pieces) > 1:
            return None
        feeds |= {"pieces": laid.pieces[0], "types": laid.piece_types[0]}
        feeds |= {
            "question_pieces": laid.question_pieces[0],
            "context_pieces": laid.context_pieces[0],
        }
        if laid.query_pieces is not None:
            feeds["query_pieces"] = laid.query_pieces[0]
    return feeds


def check(folder: Folder, model: bytes, extras: AddedInputs | None = None) -> float:
    """The largest difference of any log-probability or attention logit between a graph and what the
    reader computes, refused where it is above ``TOLERANCE``."""
    plain, exported = OnnxEngine(folder, "float", 1), session(model)
    wanted = {value.name for value in exported.get_inputs()}
    worst = 0.0
    for question, passage in _SAMPLES:
        pair = EncoderInput(question, passage, tokenize(question).words, tokenize(passage).words)
        distinct = {
            word: row
            for row, word in enumerate(
                dict.fromkeys([*pair.question_words, *pair.context_words]), 1
            )
        }
        table = dataclasses.asdict(folder.lexicon.look_up(list(distinct)))
        texts = {"question": pair.question_words, "context": pair.context_words}
        feeds = table | {
            name: np.array([distinct[w] for w in words], np.int32) for name, words in texts.items()
        }
        if (more := _extra_feeds(pair, extras) if extras is not None else {}) is None:
            continue
        feeds |= more
        found = exported.run(None, {name: array for name, array in feeds.items() if name in wanted})
        scores, rounds = plain.read(pair), plain.attend(pair)
        expected: list[NDArray[Any]] = [log_softmax(scores.start), log_softmax(scores.end)]
        expected += [scores.none] if scores.none is not None else []
        expected += [part for one in rounds for part in one]
        worst = max(
            worst, *(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
        )
    half = folder.recipe.inputs.contextual and folder.recipe.inputs.contextual_mode == "frozen"
    if not worst <= (HALF_TOLERANCE if half else TOLERANCE):
        raise UserError(
            f"{folder.path}: the exported graph differs from the network by {worst:.1e}; nothing "
            "is written."
        )
    return worst


@dataclass(frozen=True)
class Loss:
    """F1 before and after, on the questions it was measured on."""

    before: float
    after: float
    questions: int


def shrink(
    name_or_path: str | Path,
    out: Path,
    weights: Storage = "float16",
    precision: Literal["float", "int8"] = "float",
    data: Path | None = None,
) -> Loss | None:
    """Write a reader's folder again with weights in fewer bits, and perhaps made to run with 8-bit
    products.

    With ``data``, a SQuAD-format file, both readers answer it, and one that loses more than
    ``ALLOWED_LOSS`` F1 is not written. 8-bit products are never taken unmeasured.
    """
    folder = open_folder(name_or_path)
    if precision == "int8" and data is None:
        raise UserError(
            "8-bit products need --data, a file of questions with answers, to show what they cost."
        )
    folder_to_write(out, folder.path)
    measured: list[Loss] = []

    def measure(new: Path) -> dict[str, Any]:
        if data is None:
            return {}
        loss = _loss(folder.path, new, data)
        if loss.before - loss.after > ALLOWED_LOSS:
            raise UserError(
                f"{folder.path}: with {weights} weights and {precision} products F1 falls from "
                f"{loss.before:.2f} to {loss.after:.2f} on {data.name}, more than {ALLOWED_LOSS}; "
                "nothing is written."
            )
        measured.append(loss)
        return {"shrunk": {"data": data.name, **dataclasses.asdict(loss)}}

    about = folder.about | {"precision": precision}
    write_reader(out, folder.weights(), folder.recipe, about, folder.copy_to, weights, measure)
    return measured[0] if measured else None


def ensemble(names: Sequence[str], out: Path) -> dict[str, float]:
    """Write several readers as one folder that loads by one name; returns what each costs, in ms
    per question here."""
    readers = {
        f"{number}-{Path(name).resolve().name}": open_folder(name)
        for number, name in enumerate(names, 1)
    }
    if len(readers) < 2:
        raise UserError(
            f"{', '.join(names)}: an ensemble needs at least two readers; name another one."
        )
    folder_to_write(out, *(reader.path for reader in readers.values()))
    costs = {name: _milliseconds(reader.path) for name, reader in readers.items()}
    write_ensemble(out, readers, costs)
    return costs


def _milliseconds(folder: Path) -> float:
    """The median of several readings of one passage, after the first two."""
    reader, times = Reader.load(folder), []
    for _ in range(9):
        began = perf_counter()
        reader.ask(*_SAMPLES[1])
        times.append(1000 * (perf_counter() - began))
    return sorted(times[2:])[3]


def _loss(before: Path, after: Path, data: Path) -> Loss:
    from rmreader.data.squad import read_squad
    from rmreader.scoring.squad import score

    dataset = read_squad(data)
    scores = []
    for folder, precision in ((before, "float"), (after, None)):
        reader = Reader.load(folder, precision=precision)  # type: ignore[arg-type]
        scores.append(
            score(dataset, {row.id: text_of(answers) for row, answers in reader.predict(dataset)})
        )
    return Loss(scores[0].f1, scores[1].f1, scores[0].total)
