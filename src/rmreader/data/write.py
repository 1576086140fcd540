"""A data set as a file in SQuAD's layout 2.0."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmreader.data.squad import Article, Question
from rmreader.files import write_whole


def write_squad(articles: Iterable[Article], path: Path) -> None:
    """Write articles as JSON, compressed where the name ends in ``.gz``."""
    tree = {"version": "v2.0", "data": [_article(article) for article in articles]}
    content = json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    write_whole(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def _article(article: Article) -> dict[str, Any]:
    paragraphs = [
        {"context": paragraph.context, "qas": [_question(question) for question in paragraph.questions]}
        for paragraph in article.paragraphs
    ]
    return {"title": article.title, "paragraphs": paragraphs}


def _question(question: Question) -> dict[str, Any]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    return {"id": question.id, "question": question.text, "answers": answers, "is_impossible": question.impossible}
