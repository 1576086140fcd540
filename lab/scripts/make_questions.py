"""Make questions about prose, for readers to learn from what their teachers answer
(`training.teacher`).

A small encoder learns from SQuAD which words of a passage people ask for, and the question that
they ask. It then asks about other prose, and a trained reader answers: only questions that it
answers with the words that were asked for stay.

    python -m lab.scripts.make_questions train minilm train-v1.1.json --out generator
    python -m lab.scripts.make_questions ask generator wiki-*.txt.bz2 --out made.json.gz
    python -m lab.scripts.sift_questions check made.json.gz --reader base --out kept.json.gz
    rmreader data negatives kept.json.gz -o more.json.gz --near 0.25 --far 0.08 --hurried 0.4
    python -m lab.scripts.sift_questions join train.json.gz more.json.gz --out all.json.gz
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from lab.scripts.cloze import read_articles, read_lines
from lab.scripts.spelling import spelled, usual_spellings
from rmreader.data.squad import Article, Paragraph, Question, Reference, read_squad, write_squad
from rmreader.text.pieces import encoder_folder

_usual: dict[str, str] = {}  # of every process that writes questions
CLS, SEP = 101, 102  # of BERT's uncased vocabulary, which MiniLM has
LONGEST, ASKED = 254, 32  # pieces of a passage, and of a question with its end
SPAN = 24  # pieces of an answer, at most
Past = list[tuple[Tensor, Tensor]]


class Layer(nn.Module):
    """A layer of BERT, which may look at keys and values of pieces before its own."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, inner), nn.Linear(inner, size)
        self.norm1, self.norm2 = nn.LayerNorm(size, 1e-12), nn.LayerNorm(size, 1e-12)
        self.drop = nn.Dropout(0.1)

    def forward(
        self, x: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors [B, s, size], what each may look at [B, 1, s or 1, keys], keys and values
        before them."""
        parts = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.drop(self.out(seen)))
        return self.norm2(x + self.drop(self.narrow(F.gelu(self.wide(x))))), k, v


class Generator(nn.Module):
    """Reads a passage in both directions and writes a question about its marked words from left
    to right (UniLM)."""

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], size)
        self.places = nn.Embedding(config["max_position_embeddings"], size)
        self.kinds = nn.Embedding(3, size)  # passage, the words to ask for, question
        self.norm, self.drop = nn.LayerNorm(size, 1e-12), nn.Dropout(0.1)
        shape = size, config["num_attention_heads"], config["intermediate_size"]
        self.layers = nn.ModuleList(Layer(*shape) for _ in range(config["num_hidden_layers"]))
        self.head = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size))
        self.bias = nn.Parameter(torch.zeros(config["vocab_size"]))
        self.first = nn.Linear(size, 1)
        self.last = nn.ModuleList(
            [nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, 1)]
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
        }
        names |= {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
        for kind in ("weight", "bias"):
            own[f"norm.{kind}"] = bert[f"embeddings.LayerNorm.{kind}"]
            for k in range(len(self.layers)):
                theirs = f"encoder.layer.{k}."
                parts = [
                    bert[f"{theirs}attention.self.{part}.{kind}"]
                    for part in ("query", "key", "value")
                ]
                own[f"layers.{k}.qkv.{kind}"] = torch.cat(parts)
                own |= {
                    f"layers.{k}.{our}.{kind}": bert[f"{theirs}{their}.{kind}"]
                    for our, their in names.items()
                }
        self.load_state_dict(own, strict=False)

    def _embed(self, pieces: Tensor, places: Tensor, kinds: Tensor) -> Tensor:
        vectors: Tensor = self.drop(
            self.norm(self.words(pieces) + self.places(places) + self.kinds(kinds))
        )
        return vectors

    def read(self, passage: Tensor, marked: Tensor) -> tuple[Tensor, Past]:
        """The passage's vectors, and its keys and values in every layer."""
        x = self._embed(passage, torch.arange(passage.shape[1], device=passage.device), marked)
        mask, past = (passage != 0)[:, None, None], []
        for layer in self.layers:
            x, k, v = layer(x, mask, None)
            past.append((k, v))
        return x, past

    def write(self, pieces: Tensor, at: Tensor, past: Past, mask: Tensor) -> tuple[Tensor, Past]:
        """Scores of the piece after each of these, the first of which are at the places ``at``."""
        steps = torch.arange(pieces.shape[1], device=pieces.device)
        x, after = self._embed(pieces, at[:, None] + steps, torch.full_like(pieces, 2)), []
        for layer, before in zip(self.layers, past, strict=True):
            x, k, v = layer(x, mask, before)
            after.append((k, v))
        return self.head(x) @ self.words.weight.T + self.bias, after

    def ends(self, vectors: Tensor, first: Tensor) -> Tensor:
        """Scores of every place as the last of an answer that begins at ``first``."""
        begin = vectors[torch.arange(len(vectors), device=first.device), first]
        scores: Tensor = self.last[2](
            torch.tanh(self.last[0](vectors) + self.last[1](begin)[:, None])
        ).squeeze(-1)
        return scores


def words_open(passage: Tensor, continues: Tensor) -> tuple[Tensor, Tensor]:
    """Where an answer may begin and where it may end: at the edges of words."""
    inner = (passage != 0) & (passage != CLS) & (passage != SEP)
    inside = continues[passage]
    following = F.pad(inside[:, 1:], (0, 1), value=False)
    return inner & ~inside, inner & ~following


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of an encoder's folder."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def continuing(tokenizer: Any) -> Tensor:
    """Of every piece, whether it goes on with a word."""
    names = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return torch.tensor([name.startswith("##") for name, _ in names])


def examples(
    path: Path, tokenizer: Any
) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]:
    """Passages around their answers, questions, and the first and last piece of each answer."""
    asked = [(p.context, q) for p, q in read_squad(path).questions() if q.answers]
    texts = list(dict.fromkeys(context for context, _ in asked))
    read = dict(zip(texts, tokenizer.encode_batch(texts, add_special_tokens=False), strict=True))
    written = tokenizer.encode_batch(
        [question.text for _, question in asked], add_special_tokens=False
    )
    rows, questions, places = [], [], []
    for (context, question), pieces in zip(asked, written, strict=True):
        coded, answer = read[context], question.answers[0]
        begins = [begin for begin, _ in coded.offsets]
        first = int(np.searchsorted(begins, answer.start, "right")) - 1
        last = int(np.searchsorted(begins, answer.start + len(answer.text) - 1, "right")) - 1
        after = coded.tokens[last + 1 : last + 2]
        if any(
            piece.startswith("##") for piece in (coded.tokens[first], *after)
        ):  # the answer cuts a word
            continue
        if last - first >= SPAN or len(pieces.ids) >= ASKED or first < 0:
            continue
        cut = max(0, min(first - LONGEST // 2, len(begins) - LONGEST))
        rows.append([CLS, *coded.ids[cut : cut + LONGEST], SEP])
        questions.append([*pieces.ids, SEP])
        places.append((first - cut + 1, last - cut + 1))
    return padded(rows, LONGEST + 2), padded(questions, ASKED), np.array(places, np.int16)


def padded(rows: Sequence[Sequence[int]], width: int) -> NDArray[np.int16]:
    """Rows of pieces, filled up with zeros."""
    table = np.zeros((len(rows), width), np.int16)
    for to, row in zip(table, rows, strict=True):
        to[: len(row)] = row
    return table


def batches(lengths: NDArray[Any], size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows of like lengths, in an order of chance, for ever."""
    for epoch in range(1 << 30):
        draw = np.random.default_rng((seed, epoch))
        order = np.argsort(lengths + draw.uniform(0, 16, len(lengths)), kind="stable")
        cuts = [order[at : at + size] for at in range(0, len(order), size)]
        yield from (cuts[k] for k in draw.permutation(len(cuts)))


def train(args: argparse.Namespace) -> None:
    """Learn to ask."""
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = encoder_folder(args.encoder)
    tokenizer = tokenizer_of(folder)
    tables = examples(args.squad, tokenizer)
    lengths = (tables[0] != 0).sum(1)
    passages, questions, places = (torch.from_numpy(table).to(device) for table in tables)
    model = Generator(json.loads((folder / "config.json").read_text()))
    model.begin_as(load_file(folder / "model.safetensors"))
    model.to(device).train()
    continues = continuing(tokenizer).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    steps = max(1, round(args.epochs * len(lengths) / args.rows))
    began, sums, causal = (
        time.monotonic(),
        torch.zeros(3, device=device),
        torch.ones(ASKED, ASKED, device=device),
    )
    causal = causal.tril().bool()
    some = batches(lengths, args.rows, args.seed)
    for step in range(steps):
        done = max(
            step / steps, (time.monotonic() - began) / (60 * args.minutes) if args.minutes else 0.0
        )
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / min(200, 1 + steps // 10)) * (1 - done)
        index = next(some)
        wide = min(passages.shape[1], -(-int(lengths[index].max()) // 32) * 32)
        at = torch.from_numpy(index).to(device)
        passage, question, place = (
            passages[at, :wide].long(),
            questions[at].long(),
            places[at].long(),
        )
        spread = torch.arange(wide, device=device)
        marked = ((spread >= place[:, :1]) & (spread <= place[:, 1:])).long()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            vectors, _ = model.read(passage, torch.zeros_like(passage))
            may_begin, may_end = words_open(passage, continues)
            begins = model.first(vectors).squeeze(-1).float().masked_fill(~may_begin, -1e4)
            ends = model.ends(vectors, place[:, 0]).float().masked_fill(~may_end, -1e4)
            loss_answer = F.cross_entropy(begins, place[:, 0]) + F.cross_entropy(ends, place[:, 1])
            _, past = model.read(passage, marked)
            shown = F.pad(question[:, :-1], (1, 0), value=SEP)
            seen = (passage != 0)[:, None].expand(-1, ASKED, -1)
            mask = torch.cat([seen, causal.expand(len(seen), -1, -1)], 2)[:, None]
            scores, _ = model.write(shown, (passage != 0).sum(1), past, mask)
        real = question != 0
        loss_words = F.cross_entropy(scores[real].float(), question[real], label_smoothing=0.1)
        loss = loss_words + 0.3 * loss_answer
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        right = (scores.argmax(-1) == question)[real].float().mean()
        sums += torch.stack([loss_words.detach(), loss_answer.detach(), right])
        if (step + 1) % args.log_every == 0:
            line = dict(
                zip(("words", "answer", "right"), (sums / args.log_every).tolist(), strict=True)
            )
            sums.zero_()
            line |= {"step": step + 1, "of": steps, "seconds": time.monotonic() - began}
            print(json.dumps({key: round(value, 3) for key, value in line.items()}), flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(folder / name, args.out / name)
    state = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    save_file(state, args.out / "model.safetensors")
    print(f"{args.out}: {time.monotonic() - began:.0f} s", flush=True)


def ask(args: argparse.Namespace) -> None:
    """Ask about paragraphs of prose."""
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Generator(json.loads((args.generator / "config.json").read_text())).to(device).eval()
    model.load_state_dict(load_file(args.generator / "model.safetensors"))
    tokenizer = tokenizer_of(args.generator)
    continues = continuing(tokenizer).to(device)
    articles = [article for path in args.prose for article in read_articles(read_lines(path))]
    flat = [(number, text) for number, (_, texts) in enumerate(articles) for text in texts]
    chosen = np.random.default_rng(args.seed).permutation(len(flat))[: 2 * args.paragraphs]
    coded = tokenizer.encode_batch([flat[k][1] for k in chosen.tolist()], add_special_tokens=False)
    usable = [k for k, one in enumerate(coded) if 40 <= len(one.ids) <= LONGEST][: args.paragraphs]
    usable.sort(key=lambda k: len(coded[k].ids))
    print(f"{len(usable)} paragraphs", flush=True)
    found: list[tuple[int, list[int], int, int, list[int]]] = []
    for at in range(0, len(usable), args.rows):
        some = usable[at : at + args.rows]
        wide = -(-max(len(coded[k].ids) + 2 for k in some) // 8) * 8
        passage = (
            torch.from_numpy(padded([[CLS, *coded[k].ids, SEP] for k in some], wide))
            .long()
            .to(device)
        )
        with (
            torch.no_grad(),
            torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
        ):
            first, last, written = questions_about(
                model, passage, continues, args.each, args.chance
            )
        rows = zip(first.tolist(), last.tolist(), written.tolist(), strict=True)
        for row, (begin, end, pieces) in enumerate(rows):
            k = some[row // args.each]
            found.append((int(chosen[k]), coded[k].ids, begin - 1, end - 1, pieces))
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    offsets = {int(chosen[k]): coded[k].offsets for k in usable}
    usual = usual_spellings(flat[k][1] for k in chosen.tolist())
    jobs = (
        (flat[at][1], offsets[at], [names[i] for i in ids], begin, end, [names[i] for i in pieces])
        for at, ids, begin, end, pieces in found
    )
    with ProcessPoolExecutor(args.workers, initializer=_know, initargs=(usual,)) as pool:
        texts = list(pool.map(_written, jobs, chunksize=256))
    made: defaultdict[int, dict[str, Question]] = defaultdict(dict)
    for number, ((at, *_), result) in enumerate(zip(found, texts, strict=True)):
        if result is not None:
            question, reference = result
            made[at].setdefault(question, Question(f"{args.name}-{number}", question, (reference,)))
    by_article: defaultdict[int, list[Paragraph]] = defaultdict(list)
    for at, asked in sorted(made.items()):
        by_article[flat[at][0]].append(Paragraph(flat[at][1], tuple(asked.values())))
    ready = [
        Article(articles[number][0], tuple(paragraphs)) for number, paragraphs in by_article.items()
    ]
    for part in range(args.parts):
        out = args.out if args.parts == 1 else args.out.with_name(f"{part}-{args.out.name}")
        write_squad(ready[part :: args.parts], out)
    print(f"{args.out}: {sum(map(len, made.values()))} questions", flush=True)


def questions_about(
    model: Generator, passage: Tensor, continues: Tensor, each: int, chance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """For every passage ``each`` draws of an answer, by its first and last piece, and a question
    that asks for it."""
    vectors, _ = model.read(passage, torch.zeros_like(passage))
    may_begin, may_end = words_open(passage, continues)
    begins = model.first(vectors).squeeze(-1).float().masked_fill(~may_begin, -torch.inf)
    first = torch.multinomial(begins.softmax(-1), each, replacement=True).flatten()
    passage, vectors, may_end = (
        tensor.repeat_interleave(each, 0) for tensor in (passage, vectors, may_end)
    )
    spread = torch.arange(passage.shape[1], device=passage.device)
    near = (spread >= first[:, None]) & (spread < first[:, None] + SPAN) & may_end
    near = near | (
        (spread == first[:, None]) & ~near.any(1, keepdim=True)
    )  # of a word that is longer than an answer
    ends = model.ends(vectors, first).float().masked_fill(~near, -torch.inf)
    last = torch.multinomial(ends.softmax(-1), 1).squeeze(1)
    marked = ((spread >= first[:, None]) & (spread <= last[:, None])).long()
    _, past = model.read(passage, marked)
    mask, at = (passage != 0)[:, None, None], (passage != 0).sum(1)
    piece = torch.full_like(at, SEP)
    written: list[Tensor] = []
    for step in range(ASKED - 1):
        mask = F.pad(mask, (0, 1), value=True)
        scores, past = model.write(piece[:, None], at + step, past, mask)
        piece = drawn(scores[:, -1].float(), chance)
        ended = (
            torch.zeros_like(at) == 1 if not written else (written[-1] == SEP) | (written[-1] == 0)
        )
        piece = piece.masked_fill(ended, 0)
        written.append(piece)
    return first, last, torch.stack(written, 1)


def drawn(scores: Tensor, chance: float) -> Tensor:
    """A piece of each row, out of the likeliest that share ``chance`` (nucleus sampling)."""
    scores[:, :SEP] = -torch.inf  # padding, unused rows, the unknown piece, the beginning
    scores[:, SEP + 1 : 999] = -torch.inf
    best, order = scores.topk(64, dim=-1)
    odds = best.softmax(-1)
    odds = odds.masked_fill(odds.cumsum(-1) - odds >= chance, 0.0)
    return order.gather(1, torch.multinomial(odds, 1)).squeeze(1)


def _know(usual: dict[str, str]) -> None:
    _usual.update(usual)


def _written(
    job: tuple[str, list[tuple[int, int]], list[str], int, int, list[str]],
) -> tuple[str, Reference] | None:
    """A question's text and its answer; None of one without end, or that gives its answer away."""
    context, offsets, passage, begin, end, pieces = job
    if "[SEP]" not in pieces:
        return None
    pieces = pieces[: pieces.index("[SEP]")]
    if len(pieces) < 4 or pieces[-1] != "?":
        return None
    answer = context[offsets[begin][0] : offsets[end][1]]
    if not answer.strip() or f" {' '.join(passage[begin : end + 1])} " in f" {' '.join(pieces)} ":
        return None
    return spelled(pieces, passage, offsets, context, _usual), Reference(answer, offsets[begin][0])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("train", help="learn to ask")
    first.add_argument("encoder", help="to begin from, of BERT's kind: a folder, or minilm")
    first.add_argument("squad", type=Path)
    first.add_argument("--out", type=Path, required=True)
    first.add_argument("--epochs", type=float, default=10)
    first.add_argument(
        "--minutes", type=float, default=0.0, help="end after so many, whatever the epochs"
    )
    first.add_argument("--rows", type=int, default=128)
    first.add_argument("--rate", type=float, default=4e-4)
    first.add_argument("--seed", type=int, default=1)
    first.add_argument("--log-every", type=int, default=200)
    first.set_defaults(run=train)
    second = commands.add_parser("ask", help="make questions")
    second.add_argument("generator", type=Path)
    second.add_argument("prose", nargs="+", type=Path)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--name", default="made", help="what the questions' ids begin with")
    second.add_argument("--paragraphs", type=int, default=100_000, help="how many, drawn from all")
    second.add_argument("--each", type=int, default=3, help="questions per paragraph")
    second.add_argument("--chance", type=float, default=0.9, help="of nucleus sampling")
    second.add_argument("--rows", type=int, default=256)
    second.add_argument("--parts", type=int, default=1, help="write so many files")
    second.add_argument("--workers", type=int, default=1)
    second.add_argument("--seed", type=int, default=1)
    second.set_defaults(run=ask)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
