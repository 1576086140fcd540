"""Read plain prose before any question: train an encoder such as MiniLM further, to make a better
start for `base`.

Two tasks at once. One is BERT's: tell the words that were masked. The other is reading: questions
that ``python -m lab cloze`` makes by rule (a sentence with a gap, answered in another paragraph of
its article), answered by a start and an end; those without an answer point at the first position.

    python -m lab.scripts.pretrain_encoder prepare minilm wiki-*.txt.bz2 --out prepared --workers 16
    python -m lab.scripts.pretrain_encoder train minilm prepared --steps 12000 --out encoders/minilm-prose
    rmreader train base-tuned-from-prose inputs.contextual=encoders/minilm-prose …
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.scripts.cloze import cloze_article, read_articles, read_lines
from rmreader.text.pieces import encoder_folder

PROSE, PAIR = 384, 192  # pieces in a row of prose, and in a row of question and paragraph
CLS, SEP, MASK = 101, 102, 103  # of BERT's uncased vocabulary, which MiniLM has
ORDINARY = 1996  # rows of the vocabulary before this one ("the") are markers, signs and letters
Ints = NDArray[np.int16]
_tokenizer: Any = None


def _encode(texts: list[str]) -> list[Any]:
    encodings: list[Any] = _tokenizer.encode_batch(texts, add_special_tokens=False)
    return encodings


def _start(folder: str) -> None:
    global _tokenizer
    from tokenizers import Tokenizer

    _tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    _tokenizer.no_padding()
    _tokenizer.no_truncation()


def _article(
    job: tuple[str, list[str], int, float],
) -> tuple[list[int], list[list[int]], list[tuple[int, int, int]]]:
    """The pieces of an article end to end; its pairs of question and paragraph; length of
    question, start, end."""
    title, texts, seed, per_thousand = job
    prose = [piece for encoding in _encode(texts) for piece in encoding.ids]
    draw = np.random.default_rng((seed, zlib.crc32(title.encode("utf-8", "replace"))))
    pairs, places = [], []
    for paragraph in cloze_article(title, texts, seed, per_thousand).paragraphs:
        context = _encode([paragraph.context])[0]
        begins = np.array([begin for begin, _ in context.offsets])
        for question, encoded in zip(
            paragraph.questions,
            _encode([question.text for question in paragraph.questions]),
            strict=True,
        ):
            asked = encoded.ids[:48]
            room = PAIR - len(asked) - 3
            first = last = -1
            if question.answers:
                at = question.answers[0].start
                first = int(np.searchsorted(begins, at, "right")) - 1
                last = (
                    int(np.searchsorted(begins, at + len(question.answers[0].text) - 1, "right"))
                    - 1
                )
                if last - first >= min(room, 20):
                    continue
            low, high = max(0, last + 1 - room), max(0, min(first, len(begins) - room))
            cut = (
                0
                if len(begins) <= room or first < 0
                else int(draw.integers(min(low, high), max(low, high) + 1))
            )
            pair = [CLS, *asked, SEP, *context.ids[cut : cut + room], SEP]
            shift = len(asked) + 2 - cut
            pairs.append(pair)
            places.append(
                (len(asked), first + shift, last + shift) if first >= 0 else (len(asked), 0, 0)
            )
    return prose, pairs, places


def prepare(args: argparse.Namespace) -> None:
    """One ``.npz`` of rows per file of prose."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    args.out.mkdir(parents=True, exist_ok=True)
    folder = str(encoder_folder(args.encoder))
    with ProcessPoolExecutor(args.workers, initializer=_start, initargs=(folder,)) as pool:
        for path in args.prose:
            jobs = [
                (title, texts, args.seed, args.per_thousand)
                for title, texts in read_articles(read_lines(path))
            ]
            prose, pairs, places = [], [], []
            for pieces, some, where in pool.map(_article, jobs, chunksize=8):
                prose.append(np.array([*pieces, SEP], np.int16))
                pairs += some
                places += where
            flat = np.concatenate(prose)
            inside = PROSE - 2
            rows = np.full((len(flat) // inside, PROSE), SEP, np.int16)
            rows[:, 0], rows[:, 1:-1] = CLS, flat[: len(rows) * inside].reshape(-1, inside)
            wide = np.zeros((len(pairs), PAIR), np.int16)
            for row, pair in zip(wide, pairs, strict=True):
                row[: len(pair)] = pair
            part = args.out / (path.name.split(".")[0] + ".npz")
            np.savez(
                part.with_suffix(".part.npz"),
                prose=rows,
                pairs=wide,
                places=np.array(places, np.int16),
            )
            part.with_suffix(".part.npz").rename(part)
            print(f"{part}: {len(rows)} rows of prose, {len(wide)} questions", flush=True)


def batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows in an order of chance, for ever."""
    for epoch in range(1 << 30):
        order = np.random.default_rng((seed, epoch)).permutation(count)
        yield from order[: count - count % size].reshape(-1, size)


def train(args: argparse.Namespace) -> None:
    """Train for so many steps, or until the minutes are over; the rate is annealed by whichever
    ends first."""
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
    from torch import Tensor, nn
    from transformers import AutoModel

    torch.set_float32_matmul_precision("high")
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = [
        np.load(path)
        for path in sorted(args.prepared.glob("*.npz"))
        if not path.name.endswith(".part.npz")
    ]
    prose, pairs, places = (
        torch.from_numpy(np.concatenate([part[name] for part in parts])).to(device)
        for name in ("prose", "pairs", "places")
    )
    folder = encoder_folder(args.encoder)
    encoder = AutoModel.from_pretrained(str(folder), add_pooling_layer=False).to(device).train()
    size, words = encoder.config.hidden_size, encoder.embeddings.word_embeddings.weight
    head = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size)).to(device)
    bias = nn.Parameter(torch.zeros(len(words), device=device))
    pointer = nn.Linear(size, 2).to(device)
    if args.compile:
        for layer in encoder.encoder.layer:
            layer.compile(dynamic=True)
    matrices = [
        p for p in (*encoder.parameters(), *head.parameters(), *pointer.parameters()) if p.dim() > 1
    ]
    vectors = [
        p for p in (*encoder.parameters(), *head.parameters(), *pointer.parameters()) if p.dim() < 2
    ]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": [*vectors, bias], "weight_decay": 0.0}],
        lr=args.rate, betas=(0.9, 0.98), fused=True,
    )  # fmt: skip
    masked = int(0.15 * args.rows * PROSE)

    def words_loss(rows: Tensor) -> Tensor:
        chance = (
            torch.rand(rows.shape, device=device)
            .masked_fill_(rows == SEP, -1)
            .masked_fill_(rows == CLS, -1)
        )
        where = chance.flatten().topk(masked).indices
        truth = rows.flatten()[where]
        kind = torch.rand(masked, device=device)
        other = torch.randint(ORDINARY, len(words), (masked,), device=device)
        seen = torch.where(kind < 0.8, MASK, torch.where(kind < 0.9, other, truth))
        vectors = encoder(
            input_ids=rows.flatten().index_copy(0, where, seen).view_as(rows)
        ).last_hidden_state
        return F.cross_entropy((head(vectors.flatten(0, 1)[where]) @ words.T + bias).float(), truth)

    def span_loss(rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(rows.shape[1], device=device)
        real, second = rows != 0, steps > places[:, :1] + 1
        vectors = encoder(
            input_ids=rows, attention_mask=real.long(), token_type_ids=(second & real).long()
        ).last_hidden_state
        logits = (
            pointer(vectors).float().masked_fill(~(real & (second | (steps == 0)))[..., None], -1e4)
        )
        right = (logits.argmax(1) == places[:, 1:]).all(1).float().mean()
        return sum(
            (F.cross_entropy(logits[..., k], places[:, 1 + k]) for k in (0, 1)),
            torch.zeros((), device=device),
        ), right

    def save(out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "tokenizer.json"):
            shutil.copyfile(folder / name, out / name)
        state = {
            name: tensor.detach().float().cpu().contiguous()
            for name, tensor in encoder.state_dict().items()
        }
        save_file(state, out / "model.safetensors", {"format": "pt"})

    some_prose = batches(len(prose), args.rows, args.seed)
    some_pairs = batches(len(pairs), args.rows * PROSE // PAIR, args.seed + 1)
    began, step, sums = time.monotonic(), 0, torch.zeros(3, device=device)
    while True:
        done = max(
            step / args.steps,
            (time.monotonic() - began) / (60 * args.minutes) if args.minutes else 0.0,
        )
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = (
                args.rate * min(1.0, (step + 1) / 300) * (0.5 + 0.5 * math.cos(math.pi * done))
            )
        index = torch.from_numpy(next(some_pairs)).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss_words = words_loss(prose[torch.from_numpy(next(some_prose)).to(device)].long())
            loss_span, right = span_loss(pairs[index].long(), places[index].long())
        (loss_words + loss_span).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([*matrices, *vectors, bias], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        sums += torch.stack([loss_words.detach(), loss_span.detach(), right])
        step += 1
        if step % args.log_every == 0:
            loss_w, loss_s, exact = (sums / args.log_every).tolist()
            sums.zero_()
            line = {
                "step": step,
                "words": loss_w,
                "span": loss_s,
                "exact": exact,
                "seconds": time.monotonic() - began,
            }
            print(json.dumps({key: round(value, 4) for key, value in line.items()}), flush=True)
    save(args.out)
    print(f"{args.out}: {step} steps, {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser(
        "prepare", help="rows of prose and questions, one file per file of prose"
    )
    first.add_argument("encoder", help="whose pieces: a folder, or minilm")
    first.add_argument("prose", nargs="+", type=Path)
    first.add_argument("--out", type=Path, required=True)
    first.add_argument(
        "--per-thousand", type=float, default=36, help="questions per thousand words, at most"
    )
    first.add_argument("--seed", type=int, default=1)
    first.add_argument("--workers", type=int, default=1)
    first.set_defaults(run=prepare)
    second = commands.add_parser("train", help="train the encoder on prepared rows")
    second.add_argument("encoder")
    second.add_argument("prepared", type=Path)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--steps", type=int, default=12_000)
    second.add_argument(
        "--minutes", type=float, default=0.0, help="end after so many, whatever the steps"
    )
    second.add_argument(
        "--rows", type=int, default=64, help="of prose per step; as many pieces again of questions"
    )
    second.add_argument("--rate", type=float, default=3e-4)
    second.add_argument("--seed", type=int, default=1)
    second.add_argument("--log-every", type=int, default=100)
    second.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    second.set_defaults(run=train)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
