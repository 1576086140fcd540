"""Tags of our own tokens: from the pipeline that ships, from any other, and from the cache without spaCy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.data.batches import token_rows
from rmreader.data.encode import encode_pairs
from rmreader.data.tagged import tag_encoded
from rmreader.text.tags import POS, Tagger
from rmreader.text.tokens import tokenize

TEXT = "In 1912, Marie Curie visited the University of Warsaw in Poland, and she didn't stay long."


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    pytest.importorskip("spacy", reason="spaCy is absent")
    return Tagger("english")


def test_words_get_their_part_of_speech_and_entity(tagger: Tagger) -> None:
    words = tokenize(TEXT).words
    (ids,) = tagger.tag([words])
    assert ids.dtype == np.uint8
    found = {word: (tagger.pos[pos], tagger.entities[entity]) for word, (pos, entity) in zip(words, ids, strict=True)}
    assert found["Curie"][0] == "PROPN"
    assert found["Curie"][1]  # an entity, of whatever kind
    assert found["Poland"] == ("PROPN", "LOC")
    assert found["visited"] == ("VERB", "")
    assert found["the"][0] == "DET"
    assert found["1912"][0] == "NUM"
    assert found["didn"] == ("AUX", "")
    assert found["."] == ("PUNCT", "")


def test_labels_are_fixed(tagger: Tagger) -> None:
    assert tagger.pos == POS
    assert len(POS) == 18
    assert tagger.entities == ("", "LOC", "MISC", "ORG", "PER")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_text_is_tagged_token_by_token(tagger: Tagger, texts: list[str]) -> None:
    words = [tokenize(text).words for text in texts]
    tags = list(tagger.tag(words))
    assert [len(ids) for ids in tags] == [len(text) for text in words]
    assert all(ids.shape == (len(text), 2) for ids, text in zip(tags, words, strict=True))
    assert all((ids < (len(POS), len(tagger.entities))).all() for ids in tags)


def test_tags_do_not_depend_on_what_else_is_tagged(tagger: Tagger) -> None:
    texts = [tokenize(text).words for text in (TEXT, "Who is she?", "Oslo. " * 80)]
    together = list(tagger.tag(texts))
    for text, ids in zip(texts, together, strict=True):
        (alone,) = tagger.tag([text])
        assert np.array_equal(ids, alone)


def test_a_readers_own_labels_decide_the_ids(tagger: Tagger) -> None:
    words = tokenize(TEXT).words
    other = Tagger("english", entities=("", "PER", "DATE"))
    assert other.fingerprint != tagger.fingerprint
    (ids,) = other.tag([words])
    (own,) = tagger.tag([words])
    for entity, known in zip(ids[:, 1], own[:, 1], strict=True):
        label = tagger.entities[known]
        assert entity == (1 if label == "PER" else 0)


def test_tags_of_a_file_are_computed_once(tagger: Tagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_pairs([("Who visited Warsaw?", TEXT), ("", ""), ("Where is Oslo?", "Oslo is in Norway.")])
    tagged = tag_encoded(encoded, tagger, tmp_path)
    (question,) = tagger.tag([tokenize("Where is Oslo?").words])
    (context,) = tagger.tag([tokenize("Oslo is in Norway.").words])
    index = np.array([2, 0])
    rows = token_rows(encoded, index, np.array([1, 3]), np.array([4, 5]), 8, 7)
    assert np.array_equal(tagged.questions[rows[0]][0, :4], question)
    assert not tagged.questions[rows[0]][0, 4:].any()
    assert np.array_equal(tagged.contexts[rows[1]][0, :4], context[1:5])
    assert not tagged.contexts[rows[1]][:, 5:].any()

    # a machine without spaCy reads what another one computed, and says what is missing where nothing was
    monkeypatch.setitem(sys.modules, "spacy", None)
    again = tag_encoded(encoded, Tagger("english"), tmp_path)
    assert np.array_equal(again.contexts, tagged.contexts)
    assert np.array_equal(again.questions, tagged.questions)
    with pytest.raises(UserError, match=r"pip install 'rmreader\[tags\]'"):
        tag_encoded(encode_pairs([("New?", "Text.")]), Tagger("english"), tmp_path)


def test_bad_pipelines_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="en_not_there: no such spaCy pipeline"):
        Tagger("en_not_there")
    with pytest.raises(UserError, match="no such spaCy pipeline"):
        Tagger(str(tmp_path))
    (tmp_path / "config.cfg").write_text("")
    with pytest.raises(UserError, match="is not a spaCy pipeline that finds entities"):
        Tagger(str(tmp_path))
    (tmp_path / "meta.json").write_text('{"labels": {"ner": ["PER"]}}')
    tagger = Tagger(str(tmp_path))
    pytest.importorskip("spacy", reason="spaCy is absent")
    with pytest.raises(UserError, match="cannot be loaded by spaCy"):
        list(tagger.tag([["word"]]))


def test_a_pipeline_without_parts_of_speech_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is absent")
    nlp = spacy.blank("en")
    nlp.add_pipe("ner").add_label("PER")
    nlp.initialize()
    nlp.to_disk(tmp_path)
    with pytest.raises(UserError, match="no universal parts of speech"):
        list(Tagger(str(tmp_path)).tag([["word"]]))
