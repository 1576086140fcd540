"""Make questions about prose, for readers to learn from what their teachers answer.

(The recipe's `training.teacher`.) A small encoder learns from SQuAD which words of a passage people
ask for, and the question that they ask. It then asks about other prose, and a trained reader
answers: only questions that it answers with the words that were asked for stay.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.scripts.cloze import read_articles, read_lines
from lab.scripts.generator import (
    ASKED,
    CLS,
    LONGEST,
    SEP,
    SPAN,
    Generator,
    continuing,
    marks_between,
    piece_names,
    questions_about,
    tokenizer_of,
    word_edges,
)
from lab.scripts.spelling import spelled, usual_spellings
from rmreader.data.squad import Article, Paragraph, Question, Reference, read_squad, write_squad
from rmreader.text.pieces import encoder_folder

SHORTEST = 40  # pieces of a paragraph that is asked about
_usual: dict[str, str] = {}  # usual spellings, in every process that writes questions


@dataclass(frozen=True)
class Examples:
    """Passages around their answers, questions, and the first and last piece of each answer."""

    passages: NDArray[np.int16]
    questions: NDArray[np.int16]
    places: NDArray[np.int16]


def examples(path: Path, tokenizer: Any) -> Examples:
    """Take the questions of a SQuAD file that have an answer of whole words."""
    asked = []
    for paragraph, question in read_squad(path).questions():
        if question.answers:
            asked.append((paragraph.context, question))
    contexts = list(dict.fromkeys(context for context, _ in asked))
    encoded = tokenizer.encode_batch(contexts, add_special_tokens=False)
    by_context = dict(zip(contexts, encoded, strict=True))
    texts = [question.text for _, question in asked]
    written = tokenizer.encode_batch(texts, add_special_tokens=False)

    passages = []
    questions = []
    places = []
    for (context, question), pieces in zip(asked, written, strict=True):
        passage = by_context[context]
        answer = question.answers[0]
        begins = [begin for begin, _ in passage.offsets]
        first = _piece_at(begins, answer.start)
        last = _piece_at(begins, answer.start + len(answer.text) - 1)
        if first < 0 or last - first >= SPAN or len(pieces.ids) >= ASKED:
            continue
        if _cuts_a_word(passage.tokens, first, last):
            continue
        # Of a long passage a part is taken, with the answer in its middle.
        cut = max(0, min(first - LONGEST // 2, len(begins) - LONGEST))
        passages.append([CLS, *passage.ids[cut : cut + LONGEST], SEP])
        questions.append([*pieces.ids, SEP])
        places.append((first - cut + 1, last - cut + 1))
    return Examples(
        padded(passages, LONGEST + 2),
        padded(questions, ASKED),
        np.array(places, np.int16),
    )


def _piece_at(begins: Sequence[int], character: int) -> int:
    """The piece that a character is in."""
    return int(np.searchsorted(begins, character, "right")) - 1


def _cuts_a_word(pieces: Sequence[str], first: int, last: int) -> bool:
    """Whether an answer begins or ends inside of a word."""
    after = pieces[last + 1 : last + 2]
    return any(piece.startswith("##") for piece in (pieces[first], *after))


def padded(rows: Sequence[Sequence[int]], width: int) -> NDArray[np.int16]:
    """Rows of pieces, filled up with zeros."""
    table = np.zeros((len(rows), width), np.int16)
    for target, row in zip(table, rows, strict=True):
        target[: len(row)] = row
    return table


def batches(lengths: NDArray[Any], size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows of like lengths, in an order of chance, for ever."""
    for epoch in range(1 << 30):
        draw = np.random.default_rng((seed, epoch))
        order = np.argsort(lengths + draw.uniform(0, 16, len(lengths)), kind="stable")
        cuts = [order[at : at + size] for at in range(0, len(order), size)]
        for k in draw.permutation(len(cuts)):
            yield cuts[k]


def train(args: argparse.Namespace) -> None:
    """Learn to ask."""
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = encoder_folder(args.encoder)
    tokenizer = tokenizer_of(folder)
    tables = examples(args.squad, tokenizer)
    lengths = (tables.passages != 0).sum(1)
    passages = torch.from_numpy(tables.passages).to(device)
    questions = torch.from_numpy(tables.questions).to(device)
    places = torch.from_numpy(tables.places).to(device)

    model = Generator(json.loads((folder / "config.json").read_text()))
    model.begin_as(load_file(folder / "model.safetensors"))
    model.to(device).train()
    continues = continuing(tokenizer).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=args.rate,
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )
    steps = max(1, round(args.epochs * len(lengths) / args.rows))
    warmup = min(200, 1 + steps // 10)
    began = time.monotonic()
    sums = torch.zeros(3, device=device)
    order = batches(lengths, args.rows, args.seed)
    for step in range(steps):
        done = step / steps
        if args.minutes:
            done = max(done, (time.monotonic() - began) / (60 * args.minutes))
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / warmup) * (1 - done)

        index = next(order)
        width = min(passages.shape[1], _rounded_up(int(lengths[index].max()), 32))
        rows = torch.from_numpy(index).to(device)
        loss, measures = _losses(
            model,
            passages[rows, :width].long(),
            questions[rows].long(),
            places[rows].long(),
            continues,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        sums += measures
        if (step + 1) % args.log_every == 0:
            words, answer, right = (sums / args.log_every).tolist()
            sums.zero_()
            line = {
                "words": words,
                "answer": answer,
                "right": right,
                "step": step + 1,
                "of": steps,
                "seconds": time.monotonic() - began,
            }
            rounded = {key: round(value, 3) for key, value in line.items()}
            print(json.dumps(rounded), flush=True)
    _save(model, folder, args.out)
    print(f"{args.out}: {time.monotonic() - began:.0f} s", flush=True)


def _rounded_up(number: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-number // step) * step


def _losses(
    model: Generator,
    passage: Tensor,
    question: Tensor,
    place: Tensor,
    continues: Tensor,
) -> tuple[Tensor, Tensor]:
    """The loss of a batch, and what is logged: both its parts, and the share of right pieces."""
    on_gpu = passage.device.type == "cuda"
    with torch.autocast(passage.device.type, torch.bfloat16, enabled=on_gpu):
        # Which words do people ask for?
        vectors, _ = model.read(passage, torch.zeros_like(passage))
        may_begin, may_end = word_edges(passage, continues)
        begins = model.begins(vectors).float().masked_fill(~may_begin, -1e4)
        ends = model.ends(vectors, place[:, 0]).float().masked_fill(~may_end, -1e4)
        loss_begin = F.cross_entropy(begins, place[:, 0])
        loss_end = F.cross_entropy(ends, place[:, 1])
        loss_answer = loss_begin + loss_end

        # And what do they ask? Each piece sees the passage and the pieces before it.
        marked = marks_between(place[:, :1], place[:, 1:], passage.shape[1])
        _, past = model.read(passage, marked)
        before = F.pad(question[:, :-1], (1, 0), value=SEP)
        real = passage != 0
        of_passage = real[:, None].expand(-1, ASKED, -1)
        causal = torch.ones(ASKED, ASKED, device=passage.device).tril().bool()
        of_question = causal.expand(len(passage), -1, -1)
        mask = torch.cat([of_passage, of_question], 2)[:, None]
        scores, _ = model.write(
            before,
            real.sum(1),
            past,
            mask,
        )
    written = question != 0
    loss_words = F.cross_entropy(
        scores[written].float(),
        question[written],
        label_smoothing=0.1,
    )
    right = (scores.argmax(-1) == question)[written].float().mean()
    measures = torch.stack([loss_words.detach(), loss_answer.detach(), right])
    return loss_words + 0.3 * loss_answer, measures


def _save(model: Generator, encoder: Path, out: Path) -> None:
    """Write a folder from which ``ask`` reads the generator."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(encoder / name, out / name)
    state = {}
    for name, tensor in model.state_dict().items():
        state[name] = tensor.detach().cpu().contiguous()
    save_file(state, out / "model.safetensors")


@dataclass(frozen=True)
class Prose:
    """A paragraph that is asked about."""

    number: int  # its place in all prose
    article: int
    text: str
    pieces: Any  # as the tokenizer encodes it


@dataclass(frozen=True)
class Draft:
    """A question in pieces, and the first and last piece of its answer in the paragraph."""

    prose: Prose
    first: int
    last: int
    pieces: list[int]


def ask(args: argparse.Namespace) -> None:
    """Ask about paragraphs of prose."""
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Generator(json.loads((args.generator / "config.json").read_text()))
    model.load_state_dict(load_file(args.generator / "model.safetensors"))
    model.to(device).eval()
    tokenizer = tokenizer_of(args.generator)

    titles, paragraphs = _read_prose(args.prose)
    # More are drawn than asked for, because some are too short or too long.
    order = np.random.default_rng(args.seed).permutation(len(paragraphs))
    chosen = order[: 2 * args.paragraphs].tolist()
    prose = _usable(
        paragraphs,
        chosen,
        tokenizer,
        args.paragraphs,
    )
    print(f"{len(prose)} paragraphs", flush=True)

    drafts = _drafts(
        model,
        prose,
        continuing(tokenizer).to(device),
        args,
    )
    usual = usual_spellings(paragraphs[number][1] for number in chosen)
    names = piece_names(tokenizer)
    jobs = (_job(draft, names) for draft in drafts)
    with ProcessPoolExecutor(args.workers, initializer=_know, initargs=(usual,)) as pool:
        results = list(pool.map(_written, jobs, chunksize=256))

    # A question that comes twice about a paragraph stays once.
    made: defaultdict[int, dict[str, Question]] = defaultdict(dict)
    for number, (draft, result) in enumerate(zip(drafts, results, strict=True)):
        if result is not None:
            text, reference = result
            question = Question(f"{args.name}-{number}", text, (reference,))
            made[draft.prose.number].setdefault(text, question)
    by_article: defaultdict[int, list[Paragraph]] = defaultdict(list)
    for number, questions in sorted(made.items()):
        article, text = paragraphs[number]
        by_article[article].append(Paragraph(text, tuple(questions.values())))

    articles = []
    for number, asked in by_article.items():
        articles.append(Article(titles[number], tuple(asked)))
    for part in range(args.parts):
        out = args.out
        if args.parts > 1:
            out = args.out.with_name(f"{part}-{args.out.name}")
        write_squad(articles[part :: args.parts], out)
    print(f"{args.out}: {sum(map(len, made.values()))} questions", flush=True)


def _read_prose(paths: Sequence[Path]) -> tuple[list[str], list[tuple[int, str]]]:
    """The titles of all articles, and every paragraph with the number of its article."""
    titles: list[str] = []
    paragraphs = []
    for path in paths:
        for title, texts in read_articles(read_lines(path)):
            for text in texts:
                paragraphs.append((len(titles), text))
            titles.append(title)
    return titles, paragraphs


def _usable(
    paragraphs: Sequence[tuple[int, str]],
    chosen: Sequence[int],
    tokenizer: Any,
    count: int,
) -> list[Prose]:
    """The first paragraphs that are neither too short nor too long, shorter ones first."""
    texts = [paragraphs[number][1] for number in chosen]
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    usable = []
    for number, pieces in zip(chosen, encoded, strict=True):
        if SHORTEST <= len(pieces.ids) <= LONGEST:
            article, text = paragraphs[number]
            usable.append(
                Prose(
                    number,
                    article,
                    text,
                    pieces,
                )
            )
    return sorted(usable[:count], key=lambda prose: len(prose.pieces.ids))


def _drafts(
    model: Generator,
    prose: Sequence[Prose],
    continues: Tensor,
    args: argparse.Namespace,
) -> list[Draft]:
    """Questions about all paragraphs, in pieces."""
    device = continues.device
    drafts = []
    for at in range(0, len(prose), args.rows):
        batch = prose[at : at + args.rows]
        rows = [[CLS, *paragraph.pieces.ids, SEP] for paragraph in batch]
        width = _rounded_up(max(map(len, rows)), 8)
        passage = torch.from_numpy(padded(rows, width)).long().to(device)
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        with torch.no_grad(), autocast:
            first, last, written = questions_about(
                model,
                passage,
                continues,
                args.each,
                args.chance,
            )
        answers = zip(
            first.tolist(),
            last.tolist(),
            written.tolist(),
            strict=True,
        )
        for row, (begin, end, pieces) in enumerate(answers):
            paragraph = batch[row // args.each]
            drafts.append(
                Draft(
                    paragraph,
                    begin - 1,
                    end - 1,
                    pieces,
                )
            )
    return drafts


Job = tuple[str, list[tuple[int, int]], list[str], int, int, list[str]]
"""A paragraph, the offsets and names of its pieces, the ends of the answer, the question."""


def _job(draft: Draft, names: Sequence[str]) -> Job:
    """What a process needs to write a question."""
    return (
        draft.prose.text,
        draft.prose.pieces.offsets,
        [names[i] for i in draft.prose.pieces.ids],
        draft.first,
        draft.last,
        [names[i] for i in draft.pieces],
    )


def _know(usual: dict[str, str]) -> None:
    """Remember usual spellings in a process that writes questions."""
    _usual.update(usual)


def _written(job: Job) -> tuple[str, Reference] | None:
    """A question's text and its answer.

    None of a question without end, or of one that gives its answer away.
    """
    context, offsets, passage, first, last, pieces = job
    if "[SEP]" not in pieces:
        return None
    pieces = pieces[: pieces.index("[SEP]")]
    if len(pieces) < 4 or pieces[-1] != "?":
        return None
    begin = offsets[first][0]
    answer = context[begin : offsets[last][1]]
    answer_pieces = " ".join(passage[first : last + 1])
    if not answer.strip() or f" {answer_pieces} " in f" {' '.join(pieces)} ":
        return None
    text = spelled(
        pieces,
        passage,
        offsets,
        context,
        _usual,
    )
    return text, Reference(answer, begin)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    second.add_argument(
        "--paragraphs",
        type=int,
        default=100_000,
        help="how many, drawn from all",
    )
    second.add_argument(
        "--each",
        type=int,
        default=3,
        help="questions per paragraph",
    )
    second.add_argument(
        "--chance",
        type=float,
        default=0.9,
        help="of nucleus sampling",
    )
    second.add_argument("--rows", type=int, default=256)
    second.add_argument(
        "--parts",
        type=int,
        default=1,
        help="write so many files",
    )
    second.add_argument("--workers", type=int, default=1)
    second.add_argument("--seed", type=int, default=1)
    second.set_defaults(run=ask)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
