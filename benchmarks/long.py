"""Are answers from different windows comparable? Questions whose paragraph is buried among others of its article.

    python benchmarks/long.py --model small --data dev-v1.1.json.gz [--count 300] [--paragraphs 1 2 5 10 20]

For each number of paragraphs, exact match and F1 when windows are compared by their logits (what a Reader does), by
the probabilities that each window gives by itself, and, as the ceiling, when only the right paragraph is read.
"""

from __future__ import annotations

import random

import numpy as np
from _reader import arguments, show

from rmreader import Reader
from rmreader.data.squad import read_squad
from rmreader.reading.asked import Asked, Decoding
from rmreader.reading.spans import best_spans, log_softmax, span_scores
from rmreader.scoring.squad import exact_match, f1


def by_probability(reader: Reader, question: str, passage: str) -> str:
    """The best span when every window's distribution counts as much as any other's."""
    asked = Asked(question, passage, Decoding(reader.max_length, window=reader.window))
    found = []
    for window, scores in zip(asked.windows, reader.engine.read_many(asked.pairs(), 32), strict=True):
        first = window.first - window.begin
        start, end = log_softmax(scores.start), log_softmax(scores.end)
        spans = span_scores(start[first : window.last - window.begin], end[first:], reader.max_length)
        (i,), (j,), (score,) = best_spans(spans, 1)
        found.append((score, window.first + i, window.first + j))
    _, i, j = max(found)
    tokens = asked.passage_tokens
    return passage[tokens.starts[i] : tokens.ends[j]]


def main() -> None:
    more = {
        "count": {"type": int, "default": 300},
        "paragraphs": {"type": int, "nargs": "+", "default": [1, 2, 5, 10, 20]},
    }
    options = arguments(__doc__, **more)
    reader, rng = Reader.load(options.model or "small"), random.Random(1)
    dataset = read_squad(options.data)
    every = [
        (article, paragraph, q)
        for article in dataset.articles
        for paragraph in article.paragraphs
        for q in paragraph.questions
    ]
    chosen = rng.sample(every, min(options.count, len(every)))
    rows = []
    for count in options.paragraphs:
        scores: dict[str, list[tuple[float, float]]] = {"logits": [], "probabilities": [], "right paragraph": []}
        lengths = []
        for article, paragraph, question in chosen:
            others = [other.context for other in article.paragraphs if other is not paragraph]
            texts = [paragraph.context, *rng.sample(others, min(count - 1, len(others)))]
            rng.shuffle(texts)
            text = "\n\n".join(texts)
            lengths.append(len(text.split()))
            references = [reference.text for reference in question.answers]
            given = {
                "logits": reader.ask(question.text, text)[0].text,
                "probabilities": by_probability(reader, question.text, text),
                "right paragraph": reader.ask(question.text, paragraph.context)[0].text,
            }
            for name, answer in given.items():
                scores[name].append((100 * exact_match(answer, references), 100 * f1(answer, references)))
        means = {name: np.mean(values, axis=0) for name, values in scores.items()}
        rows.append((count, round(np.mean(lengths)), *(f"{em:.1f} / {f:.1f}" for em, f in means.values())))
    show(("paragraphs", "words", *(f"{name}, EM / F1" for name in scores)), rows)


if __name__ == "__main__":
    main()
