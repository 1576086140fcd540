"""The network that writes questions: a small encoder which also writes from left to right.

It reads a passage in both directions, says which words people would ask for, and writes a question
about them (UniLM).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

# Pieces of BERT's uncased vocabulary, which MiniLM has.
CLS = 101
SEP = 102
FIRST_WORD = 999  # rows before it are markers and unused

LONGEST = 254  # pieces of a passage
ASKED = 32  # pieces of a question with its end
SPAN = 24  # pieces of an answer, at most
LIKELIEST = 64  # pieces that the next one is drawn from

# What a piece is for the network.
PASSAGE_KIND = 0
ANSWER_KIND = 1
QUESTION_KIND = 2

Past = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer."""


class Layer(nn.Module):
    """A layer of BERT, which may look at keys and values of pieces before its own."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.wide = nn.Linear(size, inner)
        self.narrow = nn.Linear(inner, size)
        self.norm1 = nn.LayerNorm(size, 1e-12)
        self.norm2 = nn.LayerNorm(size, 1e-12)
        self.drop = nn.Dropout(0.1)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        past: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute vectors [B, s, size], and the keys and values of all pieces so far.

        ``mask`` [B, 1, s or 1, keys] says what each piece may look at.
        """
        batch, length, _ = x.shape
        # Queries, keys and values [B, heads, s, size of a head].
        parts = self.qkv(x).view(
            batch,
            length,
            3,
            self.heads,
            -1,
        )
        q, k, v = parts.permute(
            2,
            0,
            3,
            1,
            4,
        ).unbind(0)
        if past is not None:
            past_keys, past_values = past
            k = torch.cat([past_keys, k], 2)
            v = torch.cat([past_values, v], 2)

        attended = F.scaled_dot_product_attention(
            q,
            k,
            v,
            mask,
        )
        attended = attended.transpose(1, 2).flatten(2)
        x = self.norm1(x + self.drop(self.out(attended)))
        inner = F.gelu(self.wide(x))
        x = self.norm2(x + self.drop(self.narrow(inner)))
        return x, k, v


class Generator(nn.Module):
    """Reads a passage in both directions and writes a question about its marked words."""

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], size)
        self.places = nn.Embedding(config["max_position_embeddings"], size)
        self.kinds = nn.Embedding(3, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.drop = nn.Dropout(0.1)
        heads = config["num_attention_heads"]
        inner = config["intermediate_size"]
        layers = [Layer(size, heads, inner) for _ in range(config["num_hidden_layers"])]
        self.layers = nn.ModuleList(layers)
        # The next piece of a question.
        self.head = nn.Sequential(
            nn.Linear(size, size),
            nn.GELU(),
            nn.LayerNorm(size),
        )
        self.bias = nn.Parameter(torch.zeros(config["vocab_size"]))
        # The first piece of an answer, and the last one after that.
        self.first = nn.Linear(size, 1)
        self.last = nn.ModuleList(
            [
                nn.Linear(size, size),
                nn.Linear(size, size),
                nn.Linear(size, 1),
            ]
        )

    def begin_as(self, bert: dict[str, Tensor]) -> None:
        """Take over the weights of an encoder of BERT's kind."""
        bert = {name.removeprefix("bert."): tensor.float() for name, tensor in bert.items()}
        kinds = bert["embeddings.token_type_embeddings.weight"]
        own = {
            "words.weight": bert["embeddings.word_embeddings.weight"],
            "places.weight": bert["embeddings.position_embeddings.weight"],
            "kinds.weight": torch.stack([kinds[0], kinds[-1], kinds[0]]),
        }
        names = {
            "out": "attention.output.dense",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "norm1": "attention.output.LayerNorm",
            "norm2": "output.LayerNorm",
        }
        for kind in ("weight", "bias"):
            own[f"norm.{kind}"] = bert[f"embeddings.LayerNorm.{kind}"]
            for k in range(len(self.layers)):
                layer = f"encoder.layer.{k}"
                parts = []
                for part in ("query", "key", "value"):
                    parts.append(bert[f"{layer}.attention.self.{part}.{kind}"])
                own[f"layers.{k}.qkv.{kind}"] = torch.cat(parts)
                for ours, theirs in names.items():
                    own[f"layers.{k}.{ours}.{kind}"] = bert[f"{layer}.{theirs}.{kind}"]
        self.load_state_dict(own, strict=False)

    def _embed(self, pieces: Tensor, places: Tensor, kinds: Tensor) -> Tensor:
        """Sum what a piece is, where it is and what kind it is of, as BERT does."""
        vectors = self.words(pieces)
        vectors = vectors + self.places(places)
        vectors = vectors + self.kinds(kinds)
        embedded: Tensor = self.drop(self.norm(vectors))
        return embedded

    def read(self, passage: Tensor, marked: Tensor) -> tuple[Tensor, Past]:
        """Compute the passage's vectors, and its keys and values in every layer."""
        places = torch.arange(passage.shape[1], device=passage.device)
        x = self._embed(passage, places, marked)
        mask = (passage != 0)[:, None, None]
        past = []
        for layer in self.layers:
            x, k, v = layer(x, mask, None)
            past.append((k, v))
        return x, past

    def write(
        self,
        pieces: Tensor,
        at: Tensor,
        past: Past,
        mask: Tensor,
    ) -> tuple[Tensor, Past]:
        """Score the piece after each of these, the first of which are at the places ``at``.

        Scores are [B, pieces, vocabulary]; the past that is returned has these pieces, too.
        """
        steps = torch.arange(pieces.shape[1], device=pieces.device)
        kinds = torch.full_like(pieces, QUESTION_KIND)
        x = self._embed(pieces, at[:, None] + steps, kinds)
        after = []
        for layer, before in zip(self.layers, past, strict=True):
            x, k, v = layer(x, mask, before)
            after.append((k, v))
        scores = self.head(x) @ self.words.weight.T + self.bias
        return scores, after

    def begins(self, vectors: Tensor) -> Tensor:
        """Score every place as the first of an answer."""
        scores: Tensor = self.first(vectors).squeeze(-1)
        return scores

    def ends(self, vectors: Tensor, first: Tensor) -> Tensor:
        """Score every place as the last of an answer that begins at ``first``."""
        rows = torch.arange(len(vectors), device=first.device)
        begin = vectors[rows, first]
        of_place, of_begin, to_score = self.last
        both = torch.tanh(of_place(vectors) + of_begin(begin)[:, None])
        scores: Tensor = to_score(both).squeeze(-1)
        return scores


def word_edges(passage: Tensor, continues: Tensor) -> tuple[Tensor, Tensor]:
    """Where an answer may begin and where it may end: at the edges of words.

    ``continues`` says of every piece of the vocabulary whether it goes on with a word.
    """
    inner = passage != 0
    inner &= passage != CLS
    inner &= passage != SEP
    inside = continues[passage]
    following = F.pad(inside[:, 1:], (0, 1), value=False)
    return inner & ~inside, inner & ~following


def marks_between(first: Tensor, last: Tensor, width: int) -> Tensor:
    """The kinds of a passage's pieces whose answer goes from ``first`` to ``last`` [B, 1]."""
    places = torch.arange(width, device=first.device)
    return ((places >= first) & (places <= last)).long()


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of an encoder's folder."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def continuing(tokenizer: Any) -> Tensor:
    """Whether each piece goes on with a word."""
    return torch.tensor([name.startswith("##") for name in piece_names(tokenizer)])


def piece_names(tokenizer: Any) -> list[str]:
    """The names of all pieces, in their order."""
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def questions_about(
    model: Generator,
    passage: Tensor,
    continues: Tensor,
    each: int,
    chance: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw ``each`` answers of every passage, and write a question that asks for each.

    Returns the first and the last piece of the answers, and the pieces of the questions.
    """
    vectors, _ = model.read(passage, torch.zeros_like(passage))
    may_begin, may_end = word_edges(passage, continues)
    begins = model.begins(vectors).float().masked_fill(~may_begin, -torch.inf)
    first = torch.multinomial(begins.softmax(-1), each, replacement=True).flatten()

    passage = passage.repeat_interleave(each, 0)
    vectors = vectors.repeat_interleave(each, 0)
    may_end = may_end.repeat_interleave(each, 0)
    places = torch.arange(passage.shape[1], device=passage.device)
    begin = first[:, None]
    near = (places >= begin) & (places < begin + SPAN) & may_end
    # A word may be longer than an answer: then it ends where it begins.
    none_near = ~near.any(1, keepdim=True)
    near |= (places == begin) & none_near
    ends = model.ends(vectors, first).float().masked_fill(~near, -torch.inf)
    last = torch.multinomial(ends.softmax(-1), 1).squeeze(1)

    marked = marks_between(begin, last[:, None], passage.shape[1])
    return (
        first,
        last,
        _write_questions(
            model,
            passage,
            marked,
            chance,
        ),
    )


def _write_questions(
    model: Generator,
    passage: Tensor,
    marked: Tensor,
    chance: float,
) -> Tensor:
    """Write a question about the marked words of every passage, a piece at a time.

    After its end a question has zeros.
    """
    _, past = model.read(passage, marked)
    real = passage != 0
    mask = real[:, None, None]
    at = real.sum(1)
    piece = torch.full_like(at, SEP)
    ended = torch.zeros_like(at, dtype=torch.bool)
    pieces: list[Tensor] = []
    for step in range(ASKED - 1):
        mask = F.pad(mask, (0, 1), value=True)
        scores, past = model.write(
            piece[:, None],
            at + step,
            past,
            mask,
        )
        piece = drawn(scores[:, -1].float(), chance)
        piece = piece.masked_fill(ended, 0)
        ended = (piece == SEP) | (piece == 0)
        pieces.append(piece)
    return torch.stack(pieces, 1)


def drawn(scores: Tensor, chance: float) -> Tensor:
    """Draw a piece of each row, out of the likeliest that share ``chance`` (nucleus sampling)."""
    # Padding, unused rows, the unknown piece and the beginning are no part of a question.
    scores[:, :SEP] = -torch.inf
    scores[:, SEP + 1 : FIRST_WORD] = -torch.inf
    best, order = scores.topk(LIKELIEST, dim=-1)
    odds = best.softmax(-1)
    odds = odds.masked_fill(odds.cumsum(-1) - odds >= chance, 0.0)
    choice = torch.multinomial(odds, 1)
    return order.gather(1, choice).squeeze(1)
