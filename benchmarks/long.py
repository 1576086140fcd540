"""Long passages: questions whose paragraph is buried among others of its article.

    python benchmarks/long.py --model small --data heldout.json.gz [--count 200] [--paragraphs 1 4 12 30]

For each number of paragraphs, exact match and F1 of a Reader, which reads the best places of all windows once more; of
the best span by the windows' logits, and by the probabilities each window gives by itself; and, as the ceiling, when
only the right paragraph is read.
"""

from __future__ import annotations

import random

import numpy as np
from _reader import arguments, show

from rmreader import Reader
from rmreader.data.squad import read_squad
from rmreader.reading.question import PendingQuestion
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import best_spans, log_sum, span_scores
from rmreader.scoring.squad import exact_match, f1


def by_windows(reader: Reader, question: str, passage: str) -> tuple[str, str]:
    """The best span when windows are compared by logits, and when by their own probabilities."""
    asked = PendingQuestion(QuestionRow("", question, passage), reader.max_length, reader.window)
    logits, probabilities = [], []
    for window, scores in zip(asked.portions, reader.engine.read_many(asked.pairs(), 32), strict=True):
        first = window.first - window.begin
        spans = span_scores(scores.start[first : window.last - window.begin], scores.end[first:], reader.max_length)
        (i,), (j,), (score,) = best_spans(spans, 1)
        logits.append((score, window.first + i, window.first + j))
        probabilities.append((score - log_sum(scores.start) - log_sum(scores.end), *logits[-1][1:]))
    tokens = asked.passage_tokens
    first_text, second_text = (
        passage[tokens.starts[i] : tokens.ends[j]] for _, i, j in (max(logits), max(probabilities))
    )
    return first_text, second_text


def main() -> None:
    more = {
        "count": {"type": int, "default": 200},
        "paragraphs": {"type": int, "nargs": "+", "default": [1, 4, 12, 30]},
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
        names = ("Reader", "logits", "probabilities", "right paragraph")
        scores: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        lengths = []
        for article, paragraph, question in chosen:
            others = [other.context for other in article.paragraphs if other is not paragraph]
            texts = [paragraph.context, *rng.sample(others, min(count - 1, len(others)))]
            rng.shuffle(texts)
            text = "\n\n".join(texts)
            lengths.append(len(text.split()))
            references = [reference.text for reference in question.answers]
            given = dict(zip(names[1:3], by_windows(reader, question.text, text), strict=True))
            given["Reader"] = reader.ask(question.text, text)[0].text
            given["right paragraph"] = reader.ask(question.text, paragraph.context)[0].text
            for name, answer in given.items():
                scores[name].append((100 * exact_match(answer, references), 100 * f1(answer, references)))
        means = {name: np.mean(values, axis=0) for name, values in scores.items()}
        rows.append((count, round(np.mean(lengths)), *(f"{em:.1f} / {f:.1f}" for em, f in means.values())))
    show(("paragraphs", "words", *(f"{name}, EM / F1" for name in scores)), rows)


if __name__ == "__main__":
    main()
