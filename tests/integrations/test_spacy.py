"""The pipe in spaCy's own pipeline."""

from __future__ import annotations

import pytest


def test_a_pipe_puts_each_answer_into_the_document() -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")  # here, as it takes a second to import
    import rmreader.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("rmreader", config={"questions": ["Who wrote the letter?", "How tall is the tower?", "When?"]})
    for text in ("The letter was written by Ada Lovelace in 1843.", "", "\x00 \u202e The letter was written by Ada."):
        doc = nlp(text)
        assert all(text[span.start_char : span.end_char] == span.text for span in doc.spans["answers"])
        labels = [span.label_ for span in doc.spans["answers"]]
        assert "How tall is the tower?" not in labels
        assert ("Who wrote the letter?" in labels) == bool(text)
