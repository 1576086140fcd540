"""Whole answers: whatever span of tokens a reader chooses, its edges are where something whole begins and ends."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmreader.reading.edges import whole
from rmreader.reading.engine.engines import Logits
from rmreader.reading.question import PendingQuestion
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.text.tokens import tokenize

NAME = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True)
UPPER = st.from_regex(r"[A-Z]{1,4}", fullmatch=True)
DIGITS = st.from_regex(r"[1-9][0-9]{0,4}", fullmatch=True)
DOMAIN = st.builds("{}.{}".format, NAME, st.sampled_from(["com", "org", "co.uk", "io", "example.net"]))
ENDING = st.sampled_from(["txt", "pdf", "tar.gz", "py", "toml", "docx", "so", "md"])
MONTH = st.integers(1, 12)
FOUR = st.from_regex(r"[0-9]{4}", fullmatch=True)

KINDS = {
    "mail addresses": st.builds("{}.{}@{}".format, NAME, NAME, DOMAIN),
    "addresses": st.builds(
        "{}://{}/{}/{}?{}={}".format, st.sampled_from(["https", "http", "ftp"]), DOMAIN, NAME, NAME, NAME, DIGITS
    ),
    "hosts": st.builds("{}.{}".format, NAME, DOMAIN) | st.builds("{}/{}".format, DOMAIN, NAME),
    "paths": st.builds("/{}/{}/{}.{}".format, NAME, NAME, NAME, ENDING)
    | st.builds("./{}/{}".format, NAME, NAME)
    | st.builds("~/.{}/{}.{}".format, NAME, NAME, ENDING)
    | st.builds("{}/{}_{}.{}".format, NAME, NAME, NAME, ENDING)
    | st.builds("C:\\{}\\{}.{}".format, NAME, NAME, ENDING),
    "file names": st.builds("{}.{}".format, NAME, ENDING) | st.builds("{}-{}.{}".format, NAME, NAME, ENDING),
    "versions": st.builds("{}{}.{}.{}".format, st.sampled_from(["", "v"]), DIGITS, DIGITS, DIGITS)
    | st.builds("{}.{}.{}-rc{}".format, DIGITS, DIGITS, DIGITS, DIGITS),
    "identifiers": st.builds("{}{}".format, st.sampled_from(["u", "i", "float", "sha"]), DIGITS)
    | st.builds("{}_{}{}".format, NAME, NAME, DIGITS)
    | st.builds("__{}__".format, NAME)
    | st.builds("{}.{}.{}".format, NAME, NAME, st.sampled_from(["List", "Reader", "run"]))
    | st.builds("{}::{}".format, NAME, NAME)
    | st.builds("{}-{}".format, UPPER, DIGITS)
    | st.builds("--{}-{}".format, NAME, NAME),
    "numbers": st.builds("{}.{}".format, DIGITS, DIGITS)
    | st.builds("{}{:,}".format, st.sampled_from(["", "$", "€", "-", "+"]), st.integers(0, 10**9))
    | st.builds("{}{}".format, DIGITS, st.sampled_from(["km", "%", "€", "°C", "kWh", "m²", "km/h", "th", "s"]))
    | st.builds("{}{}.{}{}".format, st.sampled_from(["-", "+", "±"]), DIGITS, DIGITS, st.sampled_from(["V", "%", ""])),
    "dates and times": st.builds("{}-{:02}-{:02}".format, st.integers(1900, 2100), MONTH, MONTH)
    | st.builds("{:02}:{:02}".format, MONTH, st.integers(0, 59))
    | st.builds("{}/{}/{}".format, MONTH, MONTH, st.integers(1900, 2100)),
    "telephone numbers": st.builds("{}-{}-{}".format, *[st.from_regex(r"[0-9]{3,4}", fullmatch=True)] * 3)
    | st.builds("+{} {} {} {}".format, st.integers(1, 99), *[st.from_regex(r"[0-9]{3,4}", fullmatch=True)] * 3)
    | st.builds("0{} {} {}".format, DIGITS, *[st.from_regex(r"[0-9]{3,4}", fullmatch=True)] * 2),
    "bank accounts": st.builds("DE{} {} {} {}".format, *[st.from_regex(r"[0-9]{2}", fullmatch=True)], *[FOUR] * 3),
    "branches": st.builds("release/{}.{}".format, DIGITS, DIGITS) | st.builds("feature/{}-{}".format, UPPER, DIGITS),
}
BEFORE = st.sampled_from(["It is ", "See (", "We had “", "> It was ", "", "Is it\n", "with: "])
AFTER = st.sampled_from([" now.", ".", ", and more", ") here", "”.", "\nNext", "!", ";", "'s own"])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_no_answer_begins_or_ends_inside_a_run(kind: str, data: st.DataObject) -> None:
    run = data.draw(KINDS[kind])
    before = data.draw(BEFORE)
    text = before + run + data.draw(AFTER)
    tokens = tokenize(text)
    first = data.draw(st.integers(0, len(tokens) - 1))
    last = data.draw(st.integers(first, len(tokens) - 1))
    start, end = whole(text, int(tokens.starts[first]), int(tokens.ends[last]))
    low, high = len(before), len(before) + len(run)
    assert not low < start < high, (text, text[start:end])
    assert not low < end < high, (text, text[start:end])


@pytest.mark.parametrize(
    ("text", "span", "answer"),
    [
        ("Its type is u64 there.", "64", "u64"),
        ("Call it in /etc/rmreader/base.yaml.", "etc", "/etc/rmreader/base.yaml"),
        ("Write to ada.l@example.com, please.", "com", "ada.l@example.com"),
        ("Look at https://example.com/a?b=1.", "https", "https://example.com/a?b=1"),
        ("It is not refundable.", "refundable", "not refundable"),
        ("It isn't safe.", "safe", "isn't safe"),
        ("It is not the box but the bag.", "the box", "the box"),
        ("at no more than 5 kg", "more than 5 kg", "no more than 5 kg"),
        ("a non-refundable fare", "refundable", "non-refundable"),
        ("She wrote “The Raven” then.", "“The Raven", "“The Raven”"),
        ("Ada (born 1815) wrote.", "Ada (born 1815", "Ada (born 1815)"),
        ("(see the report of May)", "(see", "see"),
        ("> At noon", "> At noon", "At noon"),
        (">> At noon", ">> At noon", "At noon"),
        ("[10:31] Ada: at the station", "[10:31] Ada: at the station", "at the station"),
        ("10:31 Ada: at the station", "10:31", "10:31"),
        ("in London, then", "London,", "London"),
        ("in the U.S. then", "U.S.", "U.S."),
        ("Smith's house", "Smith", "Smith"),
        ("from 1939-1945 on", "1939", "1939"),
        ("English-speaking people", "English", "English"),
        ("by the river.The end", "river", "river"),
        ("O'Brien said so", "Brien", "O'Brien"),
        ("written in C++ or C#", "C", "C++"),
        ("共有3个人", "3", "3"),
        ("The field is Vec<u8> by default.", "8", "Vec<u8>"),
        ("It returns std::vector<int> there.", "vector", "std::vector<int>"),
        ("It is a dict[str,int] always.", "dict", "dict[str,int]"),
        ("the river[sic] was deep", "river", "river"),
        ("if a<5 and b>3 then", "5", "5"),
        ("Open localhost:8080 then.", "localhost", "localhost:8080"),
        ("The host is 10.0.0.1:8443 inside.", "8443", "10.0.0.1:8443"),
        ("The net is 10.0.0.0/8 inside.", "10.0", "10.0.0.0/8"),
        ("At fe80::1ff:fe23:4567:890a it is.", "890a", "fe80::1ff:fe23:4567:890a"),
        ("12:05: Ben came", "12:05:", "12:05"),
        ("Clone git@example.org:ada/tool.git first.", "ada", "git@example.org:ada/tool.git"),
        ("Write to o'brien+list@example.ie.", "brien", "o'brien+list@example.ie"),
        ("It is in $HOME/.cache/tool today.", "cache", "$HOME/.cache/tool"),
        ("It is in %APPDATA%\\Tool\\log.txt now.", "Tool", "%APPDATA%\\Tool\\log.txt"),
        ("It is 2024-03-report.pdf.", "pdf", "2024-03-report.pdf"),
        ("Version v2.0.0-rc.1+build.5 came.", "rc", "v2.0.0-rc.1+build.5"),
        ("The kernel is 6.1.0-18-amd64 there.", "6.1.0", "6.1.0-18-amd64"),
        ("from 2.5-3 km away", "3", "3"),
        ("Needs Node 18.x at least.", "18", "18.x"),
        ("Press Ctrl+Shift+P to open it.", "Shift", "Ctrl+Shift+P"),
        ("It is 550e8400-e29b-41d4-a716-446655440000 here", "e29b", "550e8400-e29b-41d4-a716-446655440000"),
        ("ISBN 978-3-16-148410-0 is it", "148410", "978-3-16-148410-0"),
        ("due 31-Dec-2024 sharp", "Dec", "31-Dec-2024"),
        ("It costs 1.299,00 € in total.", "299", "1.299,00"),
        ("It costs US$5 a month.", "5", "$5"),
        ("About 1.5e-3 of 10^6 cells.", "3", "1.5e-3"),
        ("About 1.5e-3 of 10^6 cells.", "6", "10^6"),
        ("the C++17 standard", "17", "C++17"),
        ("the .NET runtime", "NET", ".NET"),
        ("Use rm -rf there.", "rf", "-rf"),
        ("It lasts not\nmore than two days.", "more than two days", "not\nmore than two days"),
        ("Neither tea nor coffee is there.", "tea nor coffee", "Neither tea nor coffee"),
        ("Neither of them drinks tea.", "of them", "of them"),
        ("The 'old mill' burned.", "'old mill", "'old mill'"),
        ("The boys' house", "boys'", "boys'"),
        ("See **bold text** here", "bold text**", "bold text"),
        ("def f(**kwargs)", "**kwargs", "**kwargs"),
        ("12:05 <ben> who has it?", "<ben", "ben"),
        ("less than <5 percent", "<5 percent", "<5 percent"),
        ("  >> We meet", ">> We meet", "We meet"),
        ("- first item", "- first item", "first item"),
        ("# The title", "# The title", "The title"),
        ("2024-03-12T12:03:11Z <ada> at noon", "2024-03-12T12:03:11Z <ada> at noon", "at noon"),
        ("```python\nprint(1)\n```", "python\nprint(1)", "print(1)"),
        ("Run:\n~~~ sh\nls -la\n~~~\n", "~~~ sh\nls -la\n~~~", "ls -la"),
        ("```python\nprint(1)\n```", "python", "python"),
        ("The branch is release/5.3. QA found it.", "/5.3", "release/5.3"),
        ("See feature/SHOP-12 there.", "feature", "feature/SHOP-12"),
        ("T +44 1482 555 019 | www", "1482 555 019", "+44 1482 555 019"),
        ("Call T +44 1482 555 019 now", "T +44 1482 555 019", "+44 1482 555 019"),
        ("Mr Pell, 0161 555 0183. He", "555 0183", "0161 555 0183"),
        ("tel. (030) 555 0164, day and night", "555", "(030) 555 0164"),
        ("IBAN: KE94 0012 3456 7890 1234\nName", "3456", "KE94 0012 3456 7890 1234"),
        ("in Hull HU1 2AF", "HU1", "HU1 2AF"),
        ("P.O. Box 11 09, Frankfurt", "Box 11", "P.O. Box 11 09"),
        ("Delta Works B.V., The Hague", "Delta Works B.V", "Delta Works B.V."),
        ("It is tuple[float, float] here", "tuple", "tuple[float, float]"),
        ("about 10\u202f000\u202f000 cells", "10", "10\u202f000\u202f000"),
        ("from 2001 2002 2003 2004 on", "2002", "2002"),
        ("in the vault under `ops/tls`\n", "in the vault under `ops/tls", "in the vault under `ops/tls`"),
        ("1.5 times more (per unit of heat) than", "1.5 times more (per unit", "1.5 times more (per unit of heat)"),
        ("It cost £29 (or so. Then it rained.", "£29 (or so", "£29"),
        ("version=4.7.2 pid=8812", "4.7.2 pid", "4.7.2"),
        ("slow query 2300 ms table=orders", "2300 ms table", "2300 ms"),
        ("pid=8812", "pid", "pid"),
        ("Report it at https://a.example/b/c.", "at https://a.example/b/c", "https://a.example/b/c"),
        ("They met in London.", "in London", "in London"),
        ("$ pip install quickgeo\n", "$ pip", "pip install quickgeo"),
        ("$ pip install quickgeo\n", "pip", "pip"),
        ("It costs $ 5 a day", "$ 5", "$ 5"),
        (
            "run by python -m quickgeo.bench --repeat 5.",
            "python -m quickgeo.bench",
            "python -m quickgeo.bench --repeat 5",
        ),
        ("run ls -l and cd", "ls -l", "ls -l"),
        ("It is non - stop - and free", "non - stop", "non - stop"),
    ],
)
def test_examples(text: str, span: str, answer: str) -> None:
    at = text.index(span)
    start, end = whole(text, at, at + len(span))
    assert text[start:end] == answer


def test_a_question_that_says_not_wants_the_answer_without_it() -> None:
    text = "Children cannot vote."
    at = text.index("vote")
    assert whole(text, at, at + 4, "What may children do?") == (9, at + 4)
    assert whole(text, at, at + 4, "What can children not do?") == (at, at + 4)


@pytest.mark.parametrize(
    ("text", "span", "question", "answer"),
    [
        (
            "Quay House, 9 Custom Lane, Hull HU1 2AF\nT +44 1482",
            "Quay House",
            "What is the address of the press?",
            "Quay House, 9 Custom Lane, Hull HU1 2AF",
        ),
        ("at 48 Harbour Street, third floor left", "48 Harbour Street", "What is the address?", "48 Harbour Street"),
        ("at 5 Elm Road, Springfield, Tom said.", "5 Elm Road", "What is his address?", "5 Elm Road, Springfield"),
        ("on Poverty, 1990 Reform, War.", "Poverty", "Which issue did they address?", "Poverty"),
        ("Write to a@b.example, Room 5, Hull.", "a@b.example", "What is her address?", "a@b.example"),
    ],
)
def test_an_address_has_all_of_its_parts(text: str, span: str, question: str, answer: str) -> None:
    at = text.index(span)
    start, end = whole(text, at, at + len(span), question)
    assert text[start:end] == answer


@given(st.text(st.sampled_from("aB10+. ,'\"()`$=-/@:_>n\n€"), min_size=1, max_size=40), st.data())
@settings(max_examples=1000, deadline=None)
@example("a b", None)
def test_any_text_survives_and_a_second_time_changes_nothing(text: str, data: st.DataObject | None) -> None:
    tokens = tokenize(text)
    if not len(tokens):
        return
    first = data.draw(st.integers(0, len(tokens) - 1)) if data else 0
    last = data.draw(st.integers(first, len(tokens) - 1)) if data else 0
    start, end = whole(text, int(tokens.starts[first]), int(tokens.ends[last]))
    assert 0 <= start < end <= len(text)
    assert not text[start].isspace()
    assert not text[end - 1].isspace()


@pytest.mark.parametrize(
    "piece",
    [
        "0 ",
        "+1 2",
        "a (",
        "a, ",
        ", A1 ",
        "-a ",
        "`",
        "a[b, ",
        "a",
        "a-",
        "a.",
        "/",
        "1,",
        "a@",
        "\\",
        "-",
        "a_",
        "'a",
        ":",
        "+1",
        "a<",
        "ab[",
        "1:",
        "a::",
        "*",
    ],
)
def test_a_long_run_takes_no_time(piece: str) -> None:
    text = piece * 50_000
    begin = time.perf_counter()
    for at in (0, 20_000, len(text) - 2):
        whole(text, at, at + 1)
    assert time.perf_counter() - begin < 2


def test_a_reader_gives_whole_answers() -> None:
    passage = "The counter is stored as a u64 in /var/lib/meter/state.db, and Ada reads it by hand."
    for answer in Reader.load("small").ask("Where is the counter stored?", passage, top=5, always=True):
        assert passage[answer.start : answer.end] == answer.text
        for thing in ("u64", "/var/lib/meter/state.db"):
            at = passage.index(thing)
            assert not at < answer.start < at + len(thing)
            assert not at < answer.end < at + len(thing)


def test_a_second_answer_is_judged_by_all_of_its_words() -> None:
    """Seen before: the name of a file had the chance of the mail address that shares a word with it."""
    passage = "Ask ada@quayside.example. See quayside_logo.svg."
    pending = PendingQuestion(QuestionRow("", "Which address?", passage), 15, 300)
    words = pending.passage_tokens.words
    start = np.full(len(words), -20.0, np.float32)
    end = start.copy()
    first, second = (place for place, word in enumerate(words) if word == "quayside")
    start[first] = end[first] = 5.0  # the domain of the address
    start[second] = end[second] = 3.0  # one word of the file's name
    pending.add(Logits(start, end))
    best, other = pending.answers(2)
    assert (best.text, other.text) == ("ada@quayside.example", "quayside_logo.svg")
    assert best.confidence > 0.9
    # It has three words, of which the right answer, "quayside", has one: 2 / (1 + 3).
    assert other.confidence == pytest.approx(0.5, abs=0.05)
