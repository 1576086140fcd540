"""Tables, option lists, chats and forms, made by rule, each question with its answer and without.

What people bring is often no prose. Here a text is rows of things; a question asks for one value of
one thing, and its other half asks the same of a text without that value: the row is gone, or
another column is in its place (the deposit for the fee, the arrival for the departure), so that the
question alone tells nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rmreader.data.squad import Article, Paragraph, Question, Reference, write_squad

TEXTS = 4000
PER_ARTICLE = 20
QUESTIONS = 3  # per text

FIRST = [
    "Mia",
    "Jonas",
    "Aylin",
    "Tom",
    "Priya",
    "Lena",
    "Omar",
    "Greta",
    "Paolo",
    "Ines",
    "Kofi",
    "Sven",
    "Marta",
    "Yusuf",
    "Nora",
    "Felix",
    "Anouk",
    "Ravi",
]
LAST = [
    "Berger",
    "Costa",
    "Lind",
    "Okafor",
    "Novak",
    "Haas",
    "Petit",
    "Moreau",
    "Sato",
    "Kaya",
    "Brandt",
    "Ivers",
    "Quill",
    "Rossi",
    "Tan",
    "Vogel",
]
PLACES = [
    "Arnholm",
    "Bexley",
    "Corvo",
    "Dunmore",
    "Eskdale",
    "Farne",
    "Gilsund",
    "Hartow",
    "Ilmen",
    "Jarrow",
    "Kelby",
    "Lunde",
    "Marsk",
]
SUBJECTS = ("Pottery", "Spanish", "First aid", "Sewing", "Chess", "Sailing")
LEVELS = ("I", "II", "A", "B", "for beginners")
THINGS = [
    "pump",
    "valve",
    "filter",
    "gasket",
    "motor",
    "sensor",
    "hinge",
    "bracket",
    "cable",
    "lamp",
    "switch",
    "fan",
    "belt",
    "clamp",
]
TASKS = (
    "bring the drill",
    "book the hall",
    "call the plumber",
    "order the cake",
    "print the posters",
    "collect the keys",
    "water the plants",
    "pay the deposit",
    "drive the van",
    "write the minutes",
)
OPTIONS = (
    ("--retries", "how often a failed request is sent again", "3"),
    ("--timeout", "seconds to wait for an answer", "30"),
    ("--depth", "how many levels of folders are searched", "5"),
    ("--jobs", "how many files are read at the same time", "2"),
    ("--format", "how the result is written", "json"),
    ("--cache-dir", "the folder for temporary files", "/var/tmp/app"),
    ("--log-level", "how much is written to the log", "info"),
    ("--port", "the port that the server listens on", "8080"),
    ("--max-size", "the largest file that is accepted", "16M"),
    ("--interval", "the time between two checks", "10m"),
    ("--user", "the account that the service runs under", "nobody"),
    ("--encoding", "the encoding of the input", "utf-8"),
)


@dataclass(frozen=True)
class Row:
    """One thing of a text: how it is written, and what can be asked of it."""

    cells: tuple[tuple[str, str], ...]  # column and value
    questions: tuple[tuple[str, str], ...]  # question, and the column that answers it


class Maker:
    """Rows of every kind, drawn with one source of chance."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def person(self) -> str:
        """A name."""
        return f"{self.draw.choice(FIRST)} {self.draw.choice(LAST)}"

    def clock(self) -> str:
        """A time of day."""
        hour = self.draw.randrange(6, 22)
        minute = self.draw.choice(("00", "05", "15", "20", "30", "45", "50"))
        return f"{hour:02d}:{minute}"

    def money(self, low: int, high: int) -> str:
        """An amount."""
        amount = self.draw.randrange(low, high)
        return self.draw.choice((f"{amount} EUR", f"€{amount}", f"{amount}.50 EUR", f"${amount}"))

    def part(self) -> Row:
        """A spare part in a price list."""
        thing = self.draw.choice(THINGS)
        name = (
            f"{thing.capitalize()} {self.draw.choice('ABCDHKLMRT')}-{self.draw.randrange(100, 999)}"
        )
        cells = [
            ("Part", name),
            ("Price", self.money(4, 400)),
            ("Stock", str(self.draw.randrange(0, 90))),
            ("Shelf", f"{self.draw.choice('ABCDEF')}{self.draw.randrange(1, 30)}"),
            ("Weight", f"{self.draw.randrange(1, 90) / 10} kg"),
            (
                "Supplier",
                f"{self.draw.choice(LAST)} {self.draw.choice(('GmbH', 'Ltd', 'AB', '& Sons'))}",
            ),
        ]
        questions = (
            (f"How much does the {name} cost?", "Price"),
            (f"What is the price of {name}?", "Price"),
            (f"How many of {name} are in stock?", "Stock"),
            (f"Where is the {name} kept?", "Shelf"),
            (f"What does the {name} weigh?", "Weight"),
            (f"Who supplies the {name}?", "Supplier"),
        )
        return Row(self._some(cells), questions)

    def journey(self) -> Row:
        """A train in a timetable."""
        line = f"{self.draw.choice(('RE', 'IC', 'S', 'Bus'))} {self.draw.randrange(1, 99)}"
        begin, end = self.draw.sample(PLACES, 2)
        cells = [
            ("Line", line),
            ("From", begin),
            ("To", end),
            ("Departure", self.clock()),
            ("Arrival", self.clock()),
            ("Platform", str(self.draw.randrange(1, 14))),
        ]
        questions = (
            (f"When does {line} leave {begin}?", "Departure"),
            (f"When does {line} arrive in {end}?", "Arrival"),
            (f"Which platform does {line} leave from?", "Platform"),
            (f"Where does {line} go?", "To"),
            (f"Where does {line} start?", "From"),
        )
        return Row(self._some(cells), questions)

    def course(self) -> Row:
        """A course with a fee and a deposit, those invited and those who came."""
        subject = self.draw.choice(SUBJECTS)
        name = f"{subject} {self.draw.choice(LEVELS)}"
        invited = self.draw.randrange(8, 40)
        cells = [
            ("Course", name),
            ("Teacher", self.person()),
            (
                "Day",
                self.draw.choice(
                    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
                ),
            ),
            ("Starts", self.clock()),
            ("Ends", self.clock()),
            ("Fee", self.money(20, 300)),
            ("Deposit", self.money(5, 60)),
            ("Registered", str(invited)),
            ("Attended", str(self.draw.randrange(2, invited))),
        ]
        questions = (
            (f"What is the fee for {name}?", "Fee"),
            (f"How much is the deposit for {name}?", "Deposit"),
            (f"Who teaches {name}?", "Teacher"),
            (f"On which day is {name}?", "Day"),
            (f"When does {name} begin?", "Starts"),
            (f"When is {name} over?", "Ends"),
            (f"How many people signed up for {name}?", "Registered"),
            (f"How many people came to {name}?", "Attended"),
        )
        return Row(self._some(cells), questions)

    def member(self) -> Row:
        """A person in a list of staff."""
        name = self.person()
        cells = [
            ("Name", name),
            (
                "Role",
                self.draw.choice(
                    ("accountant", "team lead", "engineer", "receptionist", "nurse", "driver")
                ),
            ),
            ("Room", f"{self.draw.randrange(1, 5)}.{self.draw.randrange(10, 60)}"),
            ("Phone", f"+49 30 {self.draw.randrange(10000, 99999)}"),
            ("E-mail", f"{name.lower().replace(' ', '.')}@example.org"),
            ("Reports to", self.person()),
        ]
        questions = (
            (f"What does {name} work as?", "Role"),
            (f"Which room is {name} in?", "Room"),
            (f"What is {name}'s phone number?", "Phone"),
            (f"What is {name}'s e-mail address?", "E-mail"),
            (f"Who is {name}'s boss?", "Reports to"),
        )
        return Row(self._some(cells), questions)

    def option(self) -> Row:
        """An option of a program."""
        name, meaning, default = self.draw.choice(OPTIONS)
        cells = (("", name), ("", meaning), ("default", default))
        questions = (
            (f"What is the default of {name}?", "default"),
            (f"Which option sets {meaning}?", "name"),
            (f"What does {name} set?", "meaning"),
        )
        return Row(cells, questions)

    def message(self) -> Row:
        """A line of a chat."""
        name, task = self.draw.choice(FIRST), self.draw.choice(TASKS)
        stamp = (
            f"[{self.draw.randrange(1, 28):02d}.{self.draw.randrange(1, 12):02d}. {self.clock()}]"
        )
        cells = (("stamp", stamp), ("name", name), ("task", task))
        return Row(cells, ((f"Who will {task}?", "name"), (f"What will {name} do?", "task")))

    def _some(self, cells: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """The first column and some of the others, in their order."""
        count = self.draw.randrange(3, len(cells) + 1)
        wanted = {0, *self.draw.sample(range(1, len(cells)), count - 1)}
        return tuple(cell for number, cell in enumerate(cells) if number in wanted)


def written(kind: str, row: Row, between: str) -> tuple[str, dict[str, tuple[int, str]]]:
    """A row as it is read, and where the value of each column is in it.

    :param between: what separates two cells of a table; documents are read with a comma.
    """
    values = [value for _, value in row.cells]
    names: tuple[str, ...]
    if kind == "option":
        text = f"{values[0]}  {values[1]} (default {values[2]})"
        names = ("name", "meaning", "default")
    elif kind == "message":
        text = f"{values[0]} {values[1]}: I will {values[2]}."
        names = ("stamp", "name", "task")
    else:
        text = between.join(f"{column}: {value}" for column, value in row.cells) + "."
        names = tuple(column for column, _ in row.cells)
    places: dict[str, tuple[int, str]] = {}
    begin = 0
    for name, value in zip(names, values, strict=True):
        # Each value is looked for after the one before it, since two may be alike.
        begin = text.index(value, begin)
        places[name] = (begin, value)
        begin += len(value)
    return text, places


def text_of(
    kind: str, rows: list[Row], between: str
) -> tuple[str, list[tuple[Row, dict[str, tuple[int, str]]]]]:
    """Rows as lines of one text, and where their values are."""
    context = ""
    placed = []
    for row in rows:
        line, places = written(kind, row, between)
        begin = len(context)
        context += line + "\n"
        placed.append((row, {name: (begin + at, value) for name, (at, value) in places.items()}))
    return context.rstrip("\n"), placed


def pairs(kind: str, rows: list[Row], draw: random.Random, name: str) -> Iterator[Paragraph]:
    """The whole text with its questions, then each question where its answer is not."""
    between = draw.choice((", ", ", ", "; "))
    context, placed = text_of(kind, rows, between)
    asked: list[Question] = []
    others: list[Paragraph] = []
    chosen = draw.sample(range(len(rows)), min(QUESTIONS, len(rows)))
    for number in chosen:
        row, places = placed[number]
        answerable = [(text, column) for text, column in row.questions if column in places]
        if not answerable or len(rows) < 3:
            continue
        text, column = draw.choice(answerable)
        begin, value = places[column]
        asked.append(Question(f"{name}-{number}", text, (Reference(value, begin),)))
        rest = _without(kind, rows, number, column, draw)
        left, _ = text_of(kind, rest, between)
        others.append(
            Paragraph(left, (Question(f"{name}-{number}-other", text, (), impossible=True),))
        )
    if asked:
        yield Paragraph(context, tuple(asked))
        yield from others


def _without(
    kind: str, rows: list[Row], number: int, column: str, draw: random.Random
) -> list[Row]:
    """The rows without what answers: the row is gone, or of a table its one value."""
    row = rows[number]
    others = rows[:number] + rows[number + 1 :]
    if kind in ("option", "message") or draw.random() < 0.5 or len(row.cells) < 3:
        return others
    cells = tuple(cell for cell in row.cells if cell[0] != column)
    return [*rows[:number], Row(cells, row.questions), *rows[number + 1 :]]


def _alike(row: Row, rows: list[Row]) -> bool:
    """Whether a row is about the same thing as one that is there.

    Its question would have two answers.
    """
    asked = {text for other in rows for text, _ in other.questions}
    return any(text in asked for text, _ in row.questions)


def made_texts(seed: int, count: int) -> Iterator[Article]:
    """Articles of made texts."""
    maker = Maker(seed)
    kinds = {
        "part": maker.part,
        "journey": maker.journey,
        "course": maker.course,
        "member": maker.member,
        "option": maker.option,
        "message": maker.message,
    }
    paragraphs: list[Paragraph] = []
    for number in range(count):
        kind = maker.draw.choice(list(kinds))
        rows: list[Row] = []
        for _ in range(maker.draw.randrange(4, 12)):
            row = kinds[kind]()
            if not _alike(row, rows):
                rows.append(row)
        paragraphs.extend(pairs(kind, rows, maker.draw, f"made-everyday-{number}"))
        if (number + 1) % PER_ARTICLE == 0 or number + 1 == count:
            yield Article(f"made {number}", tuple(paragraphs))
            paragraphs = []


def write_made_texts(path: Path, seed: int = 21, count: int = TEXTS) -> None:
    """Write them in SQuAD's layout."""
    write_squad(list(made_texts(seed, count)), path)
