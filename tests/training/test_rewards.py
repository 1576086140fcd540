"""The reward is the official F1, on text, exactly."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmreader.data.squad import read_squad
from rmreader.scoring.squad import f1, normalize
from rmreader.text.tokens import tokenize
from rmreader.training.rewards import Rewards, build_rewards, word_hash

# Everything the rule treats specially, and characters that join or part words around it.
JOINTS = "– — _ - . , ' \" “ ” ’ \u0301 \u200b \x1c \u2003 $ € °"
WORDS = "a an the A An THE The t he n a’ a\u0301 İ ² ½ é ß ſ st 中 文 9 10 x the1"
fragments = st.sampled_from([*f"{JOINTS} {WORDS}".split(" "), " ", " ", " ", "\n"])
texts = st.one_of(st.lists(fragments, max_size=30).map("".join), st.text(max_size=40)).filter(lambda t: "Σ" not in t)


def rewards_of(text: str, references: list[str], max_length: int | None = None) -> Rewards:
    tokens = tokenize(text)
    return build_rewards([(text, tokens.starts, tokens.ends)], np.array([0]), [references], max_length)


def all_spans(text: str, rewards: Rewards, longest: int = 10**6) -> tuple[list[str], torch.Tensor]:
    tokens = tokenize(text)
    pairs = [(i, j) for i in range(len(tokens)) for j in range(i, min(len(tokens), i + longest))]
    if not pairs:
        return [], torch.empty(0)
    start, end = torch.tensor(pairs).T
    spans = [text[tokens.starts[i] : tokens.ends[j]] for i, j in pairs]
    return spans, rewards.f1(torch.zeros(len(pairs), dtype=torch.long), start, end)


@settings(deadline=None, max_examples=400)
@given(texts, st.lists(texts, min_size=1, max_size=3))
@example("x–a–y the–a–b a–b 1939–an–the", ["x y – –y", "–b", "the"])
@example("a\u0301 the\u0301re İa İ", ["\u0301 re i a"])
@example("the The THE", ["the", "a"])  # two empty texts share nothing: 0
@example("red red blue red", ["red red", "red blue blue"])
def test_reward_of_every_span_is_the_official_f1(text: str, references: list[str]) -> None:
    spans, rewards = all_spans(text, rewards_of(text, references))
    for span, reward in zip(spans, rewards.tolist(), strict=True):
        assert reward == pytest.approx(f1(span, references), abs=1e-6), (span, references)


@settings(deadline=None, max_examples=100)
@given(texts, st.data())
def test_reference_cut_from_the_text_itself(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))))
    references = [text[min(cut) : max(cut)]]
    spans, rewards = all_spans(text, rewards_of(text, references, max_length=5), longest=5)
    assert rewards.tolist() == pytest.approx([f1(span, references) for span in spans], abs=1e-6)


def test_capital_sigma_in_whole_words_is_lowered_as_python_does() -> None:
    text = "ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ"
    spans, rewards = all_spans(text, rewards_of(text, ["οδυσσευς", "σοφος"]))
    assert rewards.tolist() == pytest.approx([f1(span, ["οδυσσευς", "σοφος"]) for span in spans])


def test_reward_is_of_text_not_of_positions() -> None:
    text = "Denver won. The Denver team cheered."
    rewards = rewards_of(text, ["Denver"])
    last_denver = tokenize(text).words.index("Denver", 1)
    where = torch.tensor([0, last_denver, last_denver - 1]), torch.tensor([0, last_denver, last_denver])
    assert rewards.f1(torch.zeros(3, dtype=torch.long), *where).tolist() == [1.0, 1.0, 1.0]  # the article is no word


def test_word_characters_are_those_of_re() -> None:
    every = [chr(code) for code in range(0x110000)]
    assert [c for c in every if c.isalnum()] == [c for c in every if re.match(r"[^\W_]", c)]
    assert [c for c in every if len(c.lower()) != 1] == ["İ"]


def test_hash_of_a_word_is_that_of_its_pieces() -> None:
    rewards = rewards_of("U.S.-led (1939–1945)", ["x"])
    words, there = rewards._words(
        *(torch.tensor([value]) for value in (0, 0, len(tokenize("U.S.-led (1939–1945)")) - 1))
    )
    assert words[there].tolist() == [word_hash("usled"), word_hash("1939–1945")]


@pytest.mark.data
def test_fifty_thousand_random_spans_of_the_real_data_agree(real_data: Path) -> None:
    """Agreement must be whole: no span of 50,000 may differ from the official script."""
    generator = np.random.default_rng(5)
    paragraphs = [p for a in read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz").articles for p in a.paragraphs]
    tokens = [tokenize(p.context) for p in paragraphs]
    questions = [(k, q) for k, p in enumerate(paragraphs) for q in p.questions]
    references = [[a.text for a in q.answers] for _, q in questions]
    passage_of = np.array([k for k, _ in questions])
    passages = [(p.context, t.starts, t.ends) for p, t in zip(paragraphs, tokens, strict=True)]
    rewards = build_rewards(passages, passage_of, references, max_length=15)

    chosen = generator.integers(0, len(questions), 50_000)
    lengths = np.array([len(t) for t in tokens])[passage_of[chosen]]
    start = (generator.random(50_000) * lengths).astype(int)
    half = generator.random(50_000) < 0.5  # half of them where an answer is, so that rewards are not all 0
    for row in np.flatnonzero(half):
        where, question = questions[chosen[row]]
        start[row] = np.searchsorted(tokens[where].starts, question.answers[0].start, "right") - 1
        start[row] = max(0, start[row] - generator.integers(0, 3))
    end = np.minimum(start + generator.integers(0, 15, 50_000), lengths - 1)
    got = rewards.f1(*(torch.from_numpy(array) for array in (chosen, start, end))).numpy()
    want = np.array(
        [
            f1(paragraphs[p].context[tokens[p].starts[i] : tokens[p].ends[j]], references[q])
            for q, p, i, j in zip(chosen, passage_of[chosen], start, end, strict=True)
        ]
    )
    assert (want > 0).mean() > 0.3
    assert np.abs(got - want).max() < 1e-6


def test_normalised_reference_without_words_rewards_nothing() -> None:
    assert normalize("The.") == ""
    assert rewards_of("the a", ["The."]).f1(*(torch.tensor([0]) for _ in range(3))).tolist() == [0.0]
