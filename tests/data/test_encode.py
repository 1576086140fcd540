"""Encoded data says what the texts say; the cache is opened when whole and made anew when not."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import started

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import lock
from rmreader.data import encode as encode_module
from rmreader.data.encode import answer_span, encode_file, encode_pairs
from rmreader.data.encoded import Encoded
from rmreader.data.squad import Reference, read_squad
from rmreader.data.store import Damaged, open_arrays
from rmreader.text.tokens import tokenize

Write = Callable[..., Path]
Tree = dict[str, Any]
ANY = st.text(st.characters(exclude_categories=()), max_size=60)


def words(encoded: Encoded, tokens: np.ndarray) -> list[str]:
    return [encoded.vocabulary[k - 1] for k in tokens.tolist()]


def check(encoded: Encoded, path: Path) -> None:
    """Everything an encoded file says equals what its texts say."""
    rows = list(read_squad(path).questions())
    assert len(encoded) == len(rows)
    assert encoded.ids == [question.id for _, question in rows]
    for i, (paragraph, question) in enumerate(rows):
        tokens = tokenize(paragraph.context)
        assert (encoded.question(i), encoded.passage(i)) == (question.text, paragraph.context)
        assert words(encoded, encoded.question_tokens(i)) == tokenize(question.text).words
        assert words(encoded, encoded.context_tokens(i)) == tokens.words
        assert encoded.question_lengths[i] == len(encoded.question_tokens(i))
        assert encoded.context_lengths[i] == len(encoded.context_tokens(i))
        starts, ends = encoded.spans(i)
        assert np.array_equal(starts, tokens.starts)
        assert np.array_equal(ends, tokens.ends)
        assert encoded.references(i) == [answer.text for answer in question.answers]
        if question.answers:
            text = paragraph.context[starts[encoded.start[i]] : ends[encoded.end[i]]]
            assert text in encoded.references(i) or question.answers[0].text in text
        else:
            assert encoded.start[i] == encoded.end[i] == -1


def test_an_encoded_file_says_what_its_texts_say(tree: Tree, write: Write, tmp_path: Path) -> None:
    path = write(tree)
    encoded = encode_file(path, tmp_path / "cache")
    check(encoded, path)
    assert encoded.article.tolist() == [0, 0, 0, 0, 1]
    assert encoded.paragraph.tolist() == [0, 0, 1, 1, 2]
    assert encoded.start.tolist() == [0, 5, 15, -1, 1]
    assert encoded.end.tolist() == [1, 5, 16, -1, 1]  # q5 cuts a word: the word that covers it
    assert len(set(encoded.vocabulary)) == len(encoded.vocabulary)


def test_a_subset_is_a_view_in_the_order_asked_for(tree: Tree, write: Write, tmp_path: Path) -> None:
    encoded = encode_file(write(tree), tmp_path / "cache")
    some = encoded.subset([4, 0])
    assert some.ids == ["q5", "q1"]
    assert some.article.tolist() == [1, 0]
    assert some.passage(0) == encoded.passage(4)
    assert some.references(1) == ["Ada Lovelace", "Ada"]
    assert words(some, some.question_tokens(1)) == tokenize("Who wrote the first program?").words
    again = some.subset(np.array([1]))
    assert again.ids == ["q1"]
    assert again.context_lengths.tolist() == [encoded.context_lengths[0]]
    assert encoded.subset([]).ids == []
    assert encoded.subset(encoded.start >= 0).ids == ["q1", "q2", "q3", "q5"]


def test_the_cache_is_used_and_keyed_by_content(
    tree: Tree, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    path = write(tree)
    encode_file(path, cache)
    monkeypatch.setattr(encode_module, "_encode", lambda *_: pytest.fail("encoded again"))
    check(encode_file(path, cache), path)
    moved = path.rename(tmp_path / "elsewhere.json")
    check(encode_file(moved, cache), moved)  # same content, other name
    monkeypatch.undo()
    tree["data"].pop()
    changed = write(tree)
    assert len(encode_file(changed, cache)) == 4
    assert len(list((cache / "encoded").iterdir())) == 2


@pytest.mark.parametrize("part", ["RULE", "_FORMAT"])
def test_another_rule_has_an_entry_of_its_own(
    tree: Tree, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path, cache = write(tree), tmp_path / "cache"
    encode_file(path, cache)
    monkeypatch.setattr(encode_module, part, "letters-digits-others/2 unicode/99")
    encode_file(path, cache)
    assert len(list((cache / "encoded").iterdir())) == 2


def test_the_cache_folder_can_be_set_by_the_environment(
    tree: Tree, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "by-environment"))
    encode_file(write(tree))
    assert list((tmp_path / "by-environment" / "encoded").iterdir())


ARRAYS = ["context_tokens", "starts", "question_bounds", "passages", "vocabulary", "about"]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "emptied"])
def test_a_damaged_cache_is_made_anew(tree: Tree, write: Write, tmp_path: Path, name: str, how: str) -> None:
    path, cache = write(tree), tmp_path / "cache"
    encode_file(path, cache)
    (folder,) = (cache / "encoded").iterdir()
    file = folder / (f"{name}.npy" if name != "about" else "about.json")
    content = file.read_bytes()
    match how:
        case "cut":
            file.write_bytes(content[:-3])
        case "flipped":
            file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
        case "gone":
            file.unlink()
        case "emptied":
            file.write_bytes(b"")
    check(encode_file(path, cache), path)
    assert file.read_bytes() == content
    assert [entry.name for entry in (cache / "encoded").iterdir()] == [folder.name]  # and nothing is left lying about


def test_a_cache_that_cannot_be_written_costs_a_warning_only(tree: Tree, write: Write, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be", encoding="utf-8")
    path = write(tree)
    with pytest.warns(UserWarning, match="the encoding cannot be kept"):
        encoded = encode_file(path, blocked)
    check(encoded, path)


def test_what_a_killed_writer_left_is_swept_up(tree: Tree, write: Write, tmp_path: Path) -> None:
    path, cache = write(tree), tmp_path / "cache"
    encode_file(path, cache)
    (folder,) = (cache / "encoded").iterdir()
    left = folder.with_name(f"{folder.name}.new")
    folder.rename(left)
    (left / "half").write_bytes(b"written")
    done: list[Encoded] = []
    again = threading.Thread(target=lambda: done.append(encode_file(path, cache, workers=1)))
    with lock(cache / "encoded"):  # it may be in the making: nobody touches it before its maker is done or gone
        again.start()
        again.join(1)
        assert again.is_alive()
        assert (left / "half").exists()
    again.join()
    check(done[0], path)
    assert [entry.name for entry in (cache / "encoded").iterdir()] == [folder.name]
    assert not (folder / "half").exists()


@pytest.mark.slow
def test_no_bit_flip_of_what_a_cache_says_of_itself_is_believed(tree: Tree, write: Write, tmp_path: Path) -> None:
    path, cache = write(tree), tmp_path / "cache"
    whole = encode_file(path, cache)
    (folder,) = (cache / "encoded").iterdir()
    about = open_arrays(folder)[1]
    flips = 0
    for name in ("about.json", "checksums.json"):
        content = (folder / name).read_bytes()
        with (folder / name).open("r+b", buffering=0) as file:  # in place: to write it all again takes much longer
            for place in range(len(content)):
                for bit in range(8):
                    os.pwrite(file.fileno(), bytes([content[place] ^ 1 << bit]), place)
                    with contextlib.suppress(Damaged):  # else it is a flip that says the same, as of a space to a tab
                        arrays, said = open_arrays(folder)
                        assert said == about
                        assert arrays.keys() == whole.arrays.keys()
                    flips += 1
                os.pwrite(file.fileno(), content[place : place + 1], place)
        assert (folder / name).read_bytes() == content
    assert flips > 4_000


def test_a_cache_that_others_can_write_is_not_believed(tree: Tree, write: Write, tmp_path: Path) -> None:
    path, cache = write(tree), tmp_path / "cache"
    encode_file(path, cache)
    assert (cache / "encoded").stat().st_mode & 0o777 == 0o700
    for folder in (cache, cache / "encoded"):
        folder.chmod(0o777)
        with pytest.raises(UserError, match=r"other users can write to this cache; .* set RMREADER_CACHE"):
            encode_file(path, cache)
        folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(cache, 12345, 12345)
        with pytest.raises(UserError, match="other users can write"):
            encode_file(path, cache)


def bigger(tree: Tree, times: int) -> Tree:
    """Many paragraphs with words and ids of their own."""
    text = json.dumps(tree["data"][0])
    own = [re.sub(r'"q(\d)"', rf'"{n}-q\1"', text).replace("Byron.", f"Byron. {n:x}z") for n in range(times)]
    return {"data": [json.loads(article) for article in own]}


def test_the_encoding_does_not_depend_on_how_the_work_was_divided(
    tree: Tree, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_module, "_CHUNK", 7)
    path = write(bigger(tree, 50))
    alone = encode_file(path, tmp_path / "one", workers=1)
    shared = encode_file(path, tmp_path / "two", workers=2)
    monkeypatch.setattr(encode_module, "_CHUNK", 10_000)
    whole = encode_file(path, tmp_path / "three", workers=1)
    assert len(alone) == 200
    check(alone, path)
    for other in (shared, whole):
        assert other.vocabulary == alone.vocabulary
        assert all(np.array_equal(other.arrays[name], alone.arrays[name]) for name in alone.arrays)


def _encode_in_child(path: Path, cache: Path) -> int:
    return len(encode_file(path, cache, workers=1))


def test_several_processes_may_encode_the_same_file_at_once(tree: Tree, write: Write, tmp_path: Path) -> None:
    path, cache = write(bigger(tree, 30)), tmp_path / "cache"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        sizes = pool.starmap(_encode_in_child, [(path, cache)] * 12)
    assert sizes == [120] * 12
    check(encode_file(path, cache), path)
    assert len(list((cache / "encoded").iterdir())) == 1


def test_bad_rows_are_named_from_the_cache_too(tree: Tree, write: Write, tmp_path: Path) -> None:
    tree["data"][0]["paragraphs"][0]["qas"][0]["question"] = ""
    path = write(tree)
    for _ in range(2):
        encoded = encode_file(path, tmp_path / "cache")
        assert encoded.ids == ["q2", "q3", "q4", "q5"]
        assert encoded.problems == read_squad(path).problems


@pytest.mark.parametrize("tree", [{"data": []}, {"data": [{"paragraphs": []}]}])
def test_a_file_without_rows_is_encoded_to_nothing(tree: Tree, write: Write, tmp_path: Path) -> None:
    for _ in range(2):
        encoded = encode_file(write(tree), tmp_path / "cache")
        assert len(encoded) == 0
        assert encoded.vocabulary == []


def test_files_that_cannot_be_read_are_one_sentence(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json: cannot be read"):
        encode_file(tmp_path / "none.json", tmp_path / "cache")
    with pytest.raises(UserError, match="not valid JSON"):
        encode_file(write(b"{"), tmp_path / "cache")


@settings(max_examples=300, deadline=None)
@given(pairs=st.lists(st.tuples(ANY, ANY), max_size=5), again=st.booleans())
def test_pairs_are_encoded_in_memory_as_they_come(pairs: list[tuple[str, str]], again: bool) -> None:
    pairs = pairs * 2 if again else pairs
    encoded = encode_pairs(pairs)
    assert len(encoded) == len(pairs)
    assert len(encoded.arrays["passages_places"]) - 1 == len({passage for _, passage in pairs})
    for i, (question, passage) in enumerate(pairs):
        assert (encoded.question(i), encoded.passage(i)) == (question, passage)
        assert words(encoded, encoded.question_tokens(i)) == tokenize(question).words
        assert words(encoded, encoded.context_tokens(i)) == tokenize(passage).words
        starts, ends = encoded.spans(i)
        assert [passage[s:e] for s, e in zip(starts, ends, strict=True)] == tokenize(passage).words
        assert encoded.references(i) == []
    assert not encoded.answered


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab 1.\u0301"), min_size=1, max_size=40), st.data())
def test_an_answer_span_covers_its_text_and_no_token_more(text: str, data: st.DataObject) -> None:
    tokens = tokenize(text)
    answers = []
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        answer = text[start : data.draw(st.integers(start + 1, len(text)))]
        if answer.strip():
            answers.append(Reference(answer, start))
    first, last = answer_span(tokens.starts.tolist(), tokens.ends.tolist(), answers)
    if not answers:
        assert (first, last) == (-1, -1)
        return
    exact = [a for a in answers if a.text.strip() in spans_from(text, a, tokens.starts, tokens.ends)]
    wanted = (exact or answers)[0]
    begin = wanted.start + len(wanted.text) - len(wanted.text.lstrip())
    end = wanted.start + len(wanted.text.rstrip())
    overlapping = [k for k in range(len(tokens)) if tokens.starts[k] < end and tokens.ends[k] > begin]
    assert [first, last] == [overlapping[0], overlapping[-1]]


def spans_from(text: str, answer: Reference, starts: np.ndarray, ends: np.ndarray) -> list[str]:
    """Every run of whole tokens that starts where the answer does."""
    begin = answer.start + len(answer.text) - len(answer.text.lstrip())
    return [text[begin:end] for end in ends if end > begin] if begin in starts else []


@pytest.mark.data
def test_dev_is_encoded_whole_and_reopened_at_once(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "squad-v1.1" / "dev-v1.1.json.gz"
    encoded = encode_file(path, tmp_path)
    assert len(encoded) == 10_570
    assert int(np.diff(encoded.arrays["context_bounds"]).sum()) == 302_806
    assert int(encoded.question_lengths.sum()) == 123_783
    began = time.process_time()
    again = encode_file(path, tmp_path)
    assert time.process_time() - began < 1
    for i in range(0, len(again), 500):
        starts, ends = again.spans(i)
        assert again.passage(i)[starts[again.start[i]] : ends[again.end[i]]] in again.references(i)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has several processes")
def test_processes_that_encode_do_not_outlive_the_one_they_work_for(
    write: Write, tree: Tree, tmp_path: Path, still_there: Callable[..., Any]
) -> None:
    tree["data"] *= 4
    script = """
        import os, sys, time
        from rmreader.data import encode

        def work(chunk):
            os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, whoever else writes
            time.sleep(60)

        encode._CHUNK, encode._encode_chunk = 1, work
        encode.encode_file(sys.argv[1], sys.argv[2], workers=2)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(write(tree)), str(tmp_path / "cache")]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [psutil.Process(int(process.stdout.readline())) for _ in range(2)]
        process.kill()
        process.wait()
        assert not still_there(workers)
