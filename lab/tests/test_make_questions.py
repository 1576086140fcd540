"""The scripts that make questions about prose: the network that asks, spelling, and the sieve."""

from __future__ import annotations

import json
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from rmreader.data.squad import read_squad

NAMES = ["Ada", "Bela", "Cleo", "Dora"]
THINGS = ["tower", "bridge", "mill", "school"]
WORDS = [
    "the",
    "was",
    "built",
    "by",
    "who",
    "?",
    ".",
    "in",
    "1871",
    *map(str.lower, NAMES),
    *THINGS,
]


@pytest.fixture(scope="module")
def scripts() -> ModuleType:
    return import_module("lab.scripts.make_questions")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of BERT's kind whose special pieces are where BERT has them, with the words
    that are asked with."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    rows = ["[PAD]", *(f"[unused{k}]" for k in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    rows += [*(f"[unused{k}]" for k in range(100, 995)), *WORDS]
    tokenizer = Tokenizer(
        models.WordPiece({row: k for k, row in enumerate(rows)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    config = BertConfig(
        vocab_size=len(rows),
        max_position_embeddings=300,
        pad_token_id=0,
        **shape,
    )
    torch.manual_seed(0)
    model = BertModel(config, add_pooling_layer=False)
    (folder / "config.json").write_text(config.to_json_string())
    save_file(
        {name: tensor.contiguous() for name, tensor in model.state_dict().items()},
        folder / "model.safetensors",
    )
    return folder


def passages(count: int) -> list[tuple[str, str, str]]:
    """Sentences about who built what, each said twice over, with a question and its answer."""
    found = []
    for k in range(count):
        name = NAMES[k % 4]
        thing = THINGS[(k // 4) % 4]
        other = NAMES[(k + 1) % 4]
        second = THINGS[(k // 4 + 1) % 4]
        rest = " ".join(
            [f"In 1871 the {second} was built by {other}."] * 5
        )  # a paragraph has forty pieces at least
        found.append(
            (f"In 1871 the {thing} was built by {name}. {rest}", f"Who built the {thing}?", name)
        )
    return found


def test_a_passage_is_read_as_the_encoder_reads_it(scripts: ModuleType, encoder: Path) -> None:
    from safetensors.torch import load_file
    from transformers import BertModel

    theirs = BertModel.from_pretrained(str(encoder), add_pooling_layer=False).eval()
    model = scripts.Generator(json.loads((encoder / "config.json").read_text()))
    model.begin_as(load_file(encoder / "model.safetensors"))
    pieces = torch.tensor([[101, 1000, 1001, 102, 0], [101, 1002, 1003, 1004, 102]])
    with torch.no_grad():
        expected = theirs(input_ids=pieces, attention_mask=(pieces != 0).long()).last_hidden_state
        got, _ = model.eval().read(pieces, torch.zeros_like(pieces))
    torch.testing.assert_close(
        got[pieces != 0],
        expected[pieces != 0],
        rtol=1e-5,
        atol=1e-5,
    )


def test_a_question_written_piece_by_piece_has_the_scores_of_the_whole(
    scripts: ModuleType, encoder: Path
) -> None:
    model = scripts.Generator(json.loads((encoder / "config.json").read_text())).eval()
    passage = torch.tensor([[101, 1000, 1001, 102, 0, 0], [101, 1002, 1003, 1004, 1005, 102]])
    question = torch.tensor([[102, 1006, 1007, 1008], [102, 1009, 1010, 1011]])
    with torch.no_grad():
        _, past = model.read(passage, torch.zeros_like(passage))
        at = (passage != 0).sum(1)
        seen = (passage != 0)[:, None]
        causal = torch.ones(4, 4).tril().bool().expand(2, -1, -1)
        whole, _ = model.write(
            question, at, past, torch.cat([seen.expand(-1, 4, -1), causal], 2)[:, None]
        )
        mask = seen[:, None]
        for step in range(4):
            mask = F.pad(mask, (0, 1), value=True)
            scores, past = model.write(
                question[:, step : step + 1],
                at + step,
                past,
                mask,
            )
            torch.testing.assert_close(
                scores[:, 0],
                whole[:, step],
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.slow
def test_it_learns_to_ask_and_a_reader_keeps_what_it_answers(
    scripts: ModuleType, encoder: Path, tmp_path: Path
) -> None:
    rows = [
        {
            "context": text,
            "qas": [
                {
                    "id": str(k),
                    "question": question,
                    "answers": [answer_at(text, answer)],
                }
            ],
        }
        for k, (text, question, answer) in enumerate(passages(32))
    ]
    squad = tmp_path / "squad.json"
    prose = tmp_path / "prose.txt"
    squad.write_text(json.dumps({"data": [{"title": "Works", "paragraphs": rows}]}))
    prose.write_text("= Works =\n" + "\n".join(text for text, _, _ in passages(16)) + "\n")
    made = tmp_path / "made.json"
    common = {
        "epochs": 50,
        "minutes": 0.0,
        "rows": 16,
        "rate": 5e-3,
        "seed": 1,
        "log_every": 60,
    }
    scripts.train(
        Namespace(
            encoder=str(encoder),
            squad=squad,
            out=tmp_path / "generator",
            **common,
        )
    )
    common = {
        "name": "made",
        "paragraphs": 16,
        "each": 2,
        "chance": 0.5,
        "rows": 8,
        "parts": 1,
        "workers": 1,
        "seed": 1,
    }
    scripts.ask(
        Namespace(
            generator=tmp_path / "generator",
            prose=[prose],
            out=made,
            **common,
        )
    )
    asked = [question for _, question in read_squad(made).questions()]
    assert {f"Who built the {thing}?" for thing in THINGS} & {question.text for question in asked}
    assert {question.answers[0].text for question in asked} & set(NAMES)

    sieve = import_module("lab.scripts.sift_questions")
    kept = tmp_path / "kept.json"
    sieve.check(
        Namespace(
            made=squad,
            reader="small",
            agree=0.6,
            most_doubt=0.0,
            cache=tmp_path / "cache",
            out=kept,
        )
    )
    found = {q.id: q.answers[0].text for _, q in read_squad(kept).questions()}
    assert len(found) > 16  # `small` knows who built what
    assert all(text == NAMES[int(name) % 4] for name, text in found.items())
    held = tmp_path / "held.json"
    sieve.join(Namespace(files=[kept, made], out=tmp_path / "all.json"))
    assert len(list(read_squad(tmp_path / "all.json").questions())) == len(found) + len(asked)
    articles = [{"title": str(k), "paragraphs": [row]} for k, row in enumerate(rows)]
    squad.write_text(json.dumps({"data": articles}))
    sieve.split(
        Namespace(
            file=squad,
            out=tmp_path / "out.json",
            held_out=held,
            share=0.25,
            seed=1,
            cache=tmp_path / "cache",
        )
    )
    titles = [
        {a.title for a in read_squad(path).articles} for path in (tmp_path / "out.json", held)
    ]
    assert len(titles[1]) == 8
    assert titles[0] | titles[1] == {str(k) for k in range(32)}
    assert not titles[0] & titles[1]


def answer_at(text: str, answer: str) -> dict[str, object]:
    return {"text": answer, "answer_start": text.index(answer)}


CONTEXT = (
    "In 1871 the architect Ada O'Neil-Moor built the tower of São Pedro. It cost $4,000 (a lot). "
    "The Tower fell."
)


def typed(scripts: ModuleType, question: str) -> str:
    """A question in lower-case pieces, as the network writes them, spelled with the help of the
    passage."""
    from tokenizers import normalizers, pre_tokenizers

    lower = normalizers.BertNormalizer(lowercase=True)
    cut = pre_tokenizers.BertPreTokenizer()
    pieces = [piece for piece, _ in cut.pre_tokenize_str(lower.normalize_str(question))]
    there = cut.pre_tokenize_str(CONTEXT)
    passage = [lower.normalize_str(piece) for piece, _ in there]
    usual = {
        "who": "who",
        "the": "the",
        "tower": "tower",
        "paris": "Paris",
        "it": "it",
        "in": "in",
    }
    spelled: str = scripts.spelled(
        pieces,
        passage,
        [span for _, span in there],
        CONTEXT,
        usual,
    )
    return spelled


@pytest.mark.parametrize(
    "question",
    [
        "What did Ada O'Neil-Moor build?",
        "Who built the tower of São Pedro?",
        "Did it cost $4,000?",
        "What isn't in Paris?",
        'Why is it (a lot) "too much"?',
    ],
)
def test_a_question_is_spelled_as_it_would_be_typed(scripts: ModuleType, question: str) -> None:
    assert typed(scripts, question) == question


@given(st.lists(st.sampled_from(CONTEXT.split()), min_size=1, max_size=8))
def test_no_word_is_lost_in_spelling(words: list[str]) -> None:
    text = typed(import_module("lab.scripts.make_questions"), " ".join(words))
    assert "".join(text.lower().split()) == "".join(" ".join(words).lower().split())
