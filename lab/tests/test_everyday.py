"""Questions about everyday texts: no question tells by itself whether its passage answers it."""

from __future__ import annotations

import random
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.data.squad import read_squad

EVERYDAY = Path(__file__).resolve().parent.parent / "everyday"
LEASE = """## lease
The rent is £900. It is due on the 3rd. Mrs Eze lives next door.
Water is included. Dogs need consent. One cat is allowed, or two birds.

? how much a month
= £900 || The rent is £900
? when is it due
= 3rd
? what is included in the price
= Water
? Who is the landlord?
-
+ The flat belongs to [Ms Okafor], who lives in Leeds.
? What colour is the door?
-

## note
Call Ana at 5, or at 6. Ben is away until Monday. Milk is in the fridge, and so is the cake. \
Ring the bell twice.

? when should I call if not at 5
= at @@2 || 6
"""


@pytest.fixture(scope="module")
def everyday() -> ModuleType:
    return import_module("lab.scripts.everyday")


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    (tmp_path / "lease.txt").write_text(LEASE, encoding="utf-8")
    return tmp_path / "lease.txt"


def test_a_file_is_read_as_it_is_written(everyday: ModuleType, lease: Path) -> None:
    first, second = everyday.read(lease)
    assert first.context.count("\n") == 1
    assert [one.text for one in first.asked[0].answers] == ["£900", "The rent is £900"]
    landlord = first.asked[3]
    assert landlord.sentence == "The flat belongs to Ms Okafor, who lives in Leeds."
    assert landlord.sentence[landlord.answer.start :].startswith("Ms Okafor")
    assert [one.start for one in second.asked[0].answers] == [
        second.context.index("at 6"),
        second.context.index("6"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [("= £900", "= £901", 6), ("[Ms Okafor]", "Ms Okafor", 13), ("## lease", "", 2)],
)
def test_a_mistake_is_named_by_its_line(
    everyday: ModuleType, lease: Path, old: str, new: str, line: int
) -> None:
    lease.write_text(LEASE.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=f"lease.txt, line {line}:"):
        everyday.read(lease)


def test_sentences_are_whole_and_in_order(everyday: ModuleType, lease: Path) -> None:
    context = everyday.read(lease)[0].context
    assert [context[low:high] for low, high in everyday.sentences(context)] == [
        "The rent is £900.",
        "It is due on the 3rd.",
        "Mrs Eze lives next door.",
        "Water is included.",
        "Dogs need consent.",
        "One cat is allowed, or two birds.",
    ]


@given(st.integers(0, 10_000))
def test_answers_are_where_they_are_said_to_be_or_nowhere(seed: int) -> None:
    everyday = import_module("lab.scripts.everyday")
    text = everyday.Text(
        "note", "Ana came at 5. Ben left at 6.\nThe cake is in the fridge. Ring twice. Do not run."
    )
    for question, answer in (("when", "5"), ("who left", "Ben"), ("where", "the fridge")):
        text.asked.append(
            everyday.Asked(question, (everyday.Reference(answer, text.context.index(answer)),))
        )
    text.asked.append(
        everyday.Asked("why", (), "She came because of rain.", everyday.Reference("rain", 20))
    )
    context, answers = everyday.changed(text, random.Random(seed), 0.5, 0.7)
    for number, asked in enumerate(text.asked):
        wanted = asked.answers[0].text if asked.answers else "rain"
        found = answers.get(number, ())
        assert [context[one.start : one.start + len(one.text)] for one in found] == [wanted] * len(
            found
        )
        assert bool(found) == (wanted in context)


def test_a_question_is_judged_once_with_an_answer_and_once_without(
    everyday: ModuleType, lease: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "judged.json"
    monkeypatch.setattr("sys.argv", ["everyday.py", "judge", str(lease), "--out", str(out)])
    everyday.main()
    sides = defaultdict(list)
    for paragraph, question in read_squad(out).questions():
        sides[question.text].append((question.impossible, len(paragraph.context)))
    assert {"how much a month", "Who is the landlord?"} <= set(sides)
    assert "What colour is the door?" not in sides
    for both in sides.values():
        (_, shorter), (_, longer) = sorted(both, reverse=True)
        assert sorted(none for none, _ in both) == [False, True]
        assert shorter < longer  # the sentence that answers is the difference


def test_what_is_learned_is_asked_both_ways(
    everyday: ModuleType, lease: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "learned.json"
    monkeypatch.setattr(
        "sys.argv", ["everyday.py", "learn", str(lease), "--out", str(out), "--copies", "30"]
    )
    everyday.main()
    sides = defaultdict(list)
    for _, question in read_squad(out).questions():
        sides[question.text].append(question.impossible)
    for question in ("how much a month", "what is included in the price", "Who is the landlord?"):
        assert 0.2 < sum(sides[question]) / len(sides[question]) < 0.8
    assert all(sides["What colour is the door?"])
    assert len(sides["What colour is the door?"]) < 20  # it would tell


@pytest.mark.parametrize("name", ["learn", "held", "test"])
def test_the_files_of_the_project_are_right(everyday: ModuleType, name: str) -> None:
    texts = everyday.read(EVERYDAY / f"{name}.txt.gz")
    assert len(texts) > 80
    for text in texts:
        assert text.kind
        assert len(text.asked) >= 4
        for one in text.asked:
            assert not (one.answers and one.sentence)
            for answer in one.answers:
                assert text.context[answer.start :].startswith(answer.text)


def test_a_chat_may_have_brackets_of_its_own(everyday: ModuleType, tmp_path: Path) -> None:
    chat = tmp_path / "chat.txt"
    chat.write_text(
        "## chat\n[09:00] Mia: the bill came\n"
        "? how much\n-\n+ [09:05] Tom: it is [38,90] this time\n",
        encoding="utf-8",
    )
    (text,) = everyday.read(chat)
    assert text.asked[0].sentence == "[09:05] Tom: it is 38,90 this time"
    assert text.asked[0].answer.text == "38,90"

    chat.write_text("## chat\nThe bill came.\n? how much\n-\n+ It is 38,90.\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"line 5: .*\[brackets\]"):
        everyday.read(chat)
