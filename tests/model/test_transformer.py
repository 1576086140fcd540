"""Transformer encoders: the vectors of Hugging Face's own run, whatever stands beside a text and however long it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.encoders import build_bert, build_mpnet, build_roberta
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs, recipe_from
from rmreader.data.batch import Batch
from rmreader.model.contextual import FrozenTransformer, TunedEncoder, tuned_encoder
from rmreader.model.encoder import ScalarMix
from rmreader.model.transformer import load_transformer
from rmreader.text.piece_layout import PiecePadding, lay_out, lay_out_alone
from rmreader.text.pieces import Pieces
from rmreader.text.words import Words

VOCABULARY = ["a", "question", "Reader", "zebra", "1912", "sailors", "?", "wherever", "naïve", "読"]
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_roberta(tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="module")
def mpnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_mpnet(tmp_path_factory.mktemp("mpnet"))


@pytest.fixture(params=["bert", "roberta", "mpnet"])
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def text(seed: int, length: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, len(VOCABULARY) + 1, length).astype(np.int32)


def theirs(folder: Path, ids: list[int], types: list[int] | None = None) -> Tensor:
    """[layers, pieces, size] by transformers alone, one sequence without padding."""
    from transformers import AutoModel  # a second, which only those who run these tests wait for

    model = AutoModel.from_pretrained(str(folder)).eval()
    extra = {} if types is None else {"token_type_ids": torch.tensor([types])}
    with torch.no_grad():
        return torch.stack(model(torch.tensor([ids]), output_hidden_states=True, **extra).hidden_states)[:, 0]


def spell(pieces: Pieces, rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    ids, counts = pieces.table(VOCABULARY).spell(rows)
    return ids.tolist(), np.cumsum(counts) - counts


def test_frozen_layers_are_those_of_hugging_face(folder: Path) -> None:
    encoder = FrozenTransformer(folder)
    assert (encoder.layers, encoder.size) == (3, 32)
    rows = text(0, 14)
    ids, first = spell(encoder.pieces, rows)
    before, after = encoder.pieces.single.around
    expected = theirs(folder, [*before, *ids, *after])[:, first + len(before)].transpose(0, 1)
    found = encoder.encode(encoder.table(VOCABULARY), [rows])
    assert found.shape == (14, 3, 32)
    assert (found - expected).abs().max() < TOLERANCE


def test_the_mask_with_the_bias_lies_as_fused_kernels_need_it(mpnet: Path) -> None:
    bias = load_transformer(mpnet).position_bias
    assert bias is not None
    mask = bias(torch.tensor([[True] * 5, [True, True, False, False, False]]))
    assert mask.shape[2:] == (5, 5)
    assert mask.stride(-1) == 1  # else torch takes no fused kernel, and says nothing
    assert (mask[1, :, :, 2:] < -1e8).all()
    assert (mask[0].abs() < 100).all()


def test_frozen_vectors_do_not_depend_on_batch_mates(folder: Path) -> None:
    encoder = FrozenTransformer(folder)
    table = encoder.table(VOCABULARY)
    texts = [text(k, length) for k, length in enumerate([1, 30, 7, 250, 12])]
    alone = [encoder.encode(table, [rows]) for rows in texts]
    assert torch.equal(encoder.encode(table, texts), torch.cat(alone))  # to the last bit
    laid = lay_out_alone(encoder.pieces, table, texts)
    pieces, types, mask = (torch.from_numpy(array) for array in (laid.pieces, laid.types, laid.mask))
    together = torch.stack(encoder.transformer(pieces, types, mask), dim=2).flatten(0, 1)
    for places, rows, expected in zip(laid.places, texts, alone, strict=True):
        assert (together[places[: len(rows)]] - expected).abs().max() < TOLERANCE


def test_a_long_text_is_read_to_its_end_in_windows(folder: Path) -> None:
    encoder = FrozenTransformer(folder)
    table = encoder.table(VOCABULARY)
    rows = text(1, 400)
    found = encoder.encode(table, [rows])
    assert found.shape[0] == 400
    assert found.isfinite().all()
    # the last window is an ordinary text: its last words have the vectors they have when it is read alone
    _, counts = table.spell(rows)
    room = encoder.pieces.window - encoder.pieces.single.size
    fits = int((np.cumsum(counts[::-1]) <= room).sum())
    tail = encoder.encode(table, [rows[-fits:]])
    assert (found[-5:] - tail[-5:]).abs().max() < TOLERANCE
    # and what stands at the end is seen there: another last word changes its neighbours
    other = rows.copy()
    other[-1] = rows[-1] % len(VOCABULARY) + 1
    assert (encoder.encode(table, [other])[-5:-1, -1] - found[-5:-1, -1]).abs().max() > 1e-3
    assert torch.equal(encoder.encode(table, [other])[:20], found[:20])


def batch_of(
    pieces: Pieces, questions: list[np.ndarray], contexts: list[np.ndarray], pairing: str, more: int = 0
) -> Batch[Tensor]:
    """A batch whose words are the vocabulary's rows themselves."""
    n, m = max(map(len, questions)) + more, max(map(len, contexts)) + more
    laid = lay_out(
        pieces,
        pieces.table(VOCABULARY),
        questions,
        contexts,
        pairing,
        (n, m),
        PiecePadding(8, 1.2, 2) if more else None,
    )

    def padded(texts: list[np.ndarray], width: int) -> np.ndarray:
        return np.stack([np.pad(rows, (0, width - len(rows))) for rows in texts])

    none = np.zeros(1)
    batch: Batch[np.ndarray] = Batch(
        padded(questions, n),
        padded(contexts, m),
        np.array([len(rows) for rows in questions]),
        np.array([len(rows) for rows in contexts]),
        Words(none, none, none, none, none),
    )
    return replace(batch, contextual=laid).map(torch.from_numpy)


def tuned(folder: Path, **changes: object) -> tuple[TunedEncoder, Pieces]:
    inputs = replace(Inputs(contextual=str(folder), contextual_mode="tuned"), **changes)  # type: ignore[arg-type]
    encoder, pieces = tuned_encoder(inputs)
    return encoder.eval(), pieces


def every_layer(encoder: TunedEncoder, batch: Batch[Tensor]) -> tuple[Tensor, Tensor]:
    """The layers [B, n, layers, size] of the question's and of the context's words: a mix of each layer alone."""
    questions, contexts = [], []
    for number in range(encoder.layers):
        mix = ScalarMix(encoder.layers)
        with torch.no_grad():
            mix.weights[number] = 1e4
        question, context = encoder(batch, mix)
        questions.append(question)
        contexts.append(context)
    return torch.stack(questions, dim=2), torch.stack(contexts, dim=2)


def test_layers_that_lie_apart_are_mixed_as_those_that_lie_together() -> None:
    torch.manual_seed(0)
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.weights.copy_(torch.randn(3))
        mix.gamma.fill_(1.7)
    layers = torch.randn(2, 5, 3, 8)
    assert (mix.of_layers(layers.unbind(dim=2)) - mix(layers)).abs().max() < 1e-6


def test_tuned_apart_starts_from_the_frozen_layers(folder: Path) -> None:
    frozen = FrozenTransformer(folder)
    encoder, pieces = tuned(folder)
    questions, contexts = [text(0, 6), text(1, 11)], [text(2, 300), text(3, 40)]
    found = every_layer(encoder, batch_of(pieces, questions, contexts, "apart", more=3))
    for vectors, texts in zip(found, (questions, contexts), strict=True):
        for row, rows in zip(vectors, texts, strict=True):
            expected = frozen.encode(frozen.table(VOCABULARY), [rows])
            assert (row[: len(rows)] - expected).abs().max() < TOLERANCE
            assert row[len(rows) :].abs().sum() == 0


def test_tuned_together_is_hugging_face_on_the_pair(folder: Path) -> None:
    encoder, pieces = tuned(folder)
    question, context = text(0, 6), text(1, 20)
    (ids_q, first_q), (ids_c, first_c) = spell(pieces, question), spell(pieces, context)
    before, between, after = pieces.pair.around
    a, b = pieces.pair.types
    ids = [*before, *ids_q, *between, *ids_c, *after]
    types = [a] * (len(before) + len(ids_q) + len(between)) + [b] * (len(ids_c) + len(after))
    expected = torch.stack(list(theirs(folder, ids, types)), dim=1)
    found_q, found_c = every_layer(encoder, batch_of(pieces, [question], [context], "together", more=4))
    assert (found_q[0, :6] - expected[first_q + len(before)]).abs().max() < TOLERANCE
    assert (found_c[0, :20] - expected[first_c + len(before) + len(ids_q) + len(between)]).abs().max() < TOLERANCE


@pytest.mark.parametrize("pairing", ["apart", "together"])
def test_tuned_vectors_do_not_depend_on_batch_mates(folder: Path, pairing: str) -> None:
    encoder, pieces = tuned(folder)
    questions = [text(k, length) for k, length in enumerate([3, 90, 7])]
    contexts = [text(k + 9, length) for k, length in enumerate([200, 30, 12])]
    together = every_layer(encoder, batch_of(pieces, questions, contexts, pairing, more=2))
    for k in range(3):
        alone = every_layer(encoder, batch_of(pieces, questions[k : k + 1], contexts[k : k + 1], pairing))
        for mixed, single in zip(together, alone, strict=True):
            assert (mixed[k, : single.shape[1]] - single[0]).abs().max() < TOLERANCE


def test_together_lets_the_passage_see_the_question_and_apart_does_not(folder: Path) -> None:
    encoder, pieces = tuned(folder)
    context = text(5, 30)
    for pairing, sees in (("apart", False), ("together", True)):
        one, other = (every_layer(encoder, batch_of(pieces, [text(k, 6)], [context], pairing))[1] for k in (0, 1))
        assert ((one - other).abs().max() > 1e-3) == sees


@pytest.mark.parametrize("pairing", ["apart", "together"])
def test_every_weight_that_is_used_gets_a_finite_gradient(folder: Path, pairing: str) -> None:
    encoder, pieces = tuned(folder)
    batch = batch_of(pieces, [text(0, 6), text(1, 4)], [text(2, 300), text(3, 8)], pairing, more=5)
    question, context = encoder.train()(batch, ScalarMix(encoder.layers))
    (question.square().sum() + context.square().sum()).backward()
    trained = {name: p.grad for name, p in encoder.named_parameters() if p.requires_grad}
    assert [name for name, gradient in trained.items() if gradient is None] == []
    assert all(gradient.isfinite().all() for gradient in trained.values())
    left_out = [name for name, p in encoder.named_parameters() if not p.requires_grad]
    assert all("relative_attention_bias" in name for name in left_out)


def test_a_layer_is_skipped_now_and_then_in_training_only(bert: Path) -> None:
    encoder, pieces = tuned(bert, contextual_layer_dropout=0.5)
    for layer in encoder.transformer.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    batch = batch_of(pieces, [text(0, 6)], [text(1, 9)], "together")
    assert torch.equal(every_layer(encoder, batch)[0], every_layer(tuned(bert)[0], batch)[0])
    torch.manual_seed(0)
    encoder.train()
    mix = ScalarMix(encoder.layers)
    with torch.no_grad():
        mix.weights[-1] = 1e4
    seen = {tuple(encoder(batch, mix)[1][0, 0].detach()[:4].mul(1e3).round().tolist()) for _ in range(40)}
    assert len(seen) == 4  # none, one, the other, both: two layers


@pytest.mark.parametrize("pairing", ["apart", "together"])
def test_a_training_step_never_looks_at_what_it_computed(folder: Path, pairing: str) -> None:
    """Fake tensors have no values, so asking for one raises: what passes here can be captured in a graph."""
    encoder, pieces = tuned(folder, contextual_layer_dropout=0.1)
    batch = batch_of(pieces, [text(0, 6), text(1, 4)], [text(2, 300), text(3, 8)], pairing, more=5)
    mix = ScalarMix(encoder.layers)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = batch.map(mode.from_tensor)
        question, context = encoder.train()(fake, mix)
        (question.sum() + context.sum()).backward()
    assert question.shape == (*batch.question.shape, 32)
    assert context.shape == (*batch.context.shape, 32)


def test_only_the_shape_is_read_where_a_reader_brings_weights(bert: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(bert / name, tmp_path / name)
    encoder, _ = tuned(bert)
    empty, pieces = tuned_encoder(Inputs(contextual="gone/away", contextual_mode="tuned"), tmp_path)
    assert list(empty.state_dict()) == list(encoder.state_dict())
    empty.load_state_dict(encoder.state_dict())
    batch = batch_of(pieces, [text(0, 6)], [text(1, 9)], "apart")
    assert torch.equal(every_layer(empty.eval(), batch)[1], every_layer(encoder, batch)[1])


def test_elmo_cannot_be_tuned() -> None:
    with pytest.raises(UserError, match="ELMo is read frozen only"):
        recipe_from({"inputs": {"contextual": "elmo:somewhere", "contextual_mode": "tuned"}})


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda f: (f / "model.safetensors").write_bytes(b""), id="empty"),
        pytest.param(
            lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
            id="truncated",
        ),
        pytest.param(lambda f: (f / "model.safetensors").unlink(), id="missing"),
        pytest.param(lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), id="pickle"),
        pytest.param(lambda f: (f / "config.json").write_text("{}"), id="configuration"),
    ],
)
def test_damaged_folders_are_named(bert: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    shutil.copytree(bert, tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    with pytest.raises(UserError, match="cannot be read as an encoder"):
        load_transformer(tmp_path)
