"""Questions about tables in every format that has them: how many a reader answers right.

    python benchmarks/tables.py [READER]

The rule: an answer is right if it is one of the expected texts, without case, articles and
punctuation, and if its place in the original holds just that text. ``--bare`` reads the same rows
without their column names, as they would be read without any knowledge of tables.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.documents import docx_table, odt, pdf_table, pptx, rtf, xlsx

from rmreader import Reader
from rmreader.documents.document import Document, read_document
from rmreader.documents.passages import Passages
from rmreader.scoring.squad import normalize

Rows = Sequence[Sequence[str]]
Question = tuple[str, str]


def as_csv(rows: Rows) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


def as_html(rows: Rows) -> bytes:
    def line(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in row) + "</tr>"

    lines = [line(rows[0], "th"), *(line(row, "td") for row in rows[1:])]
    return f"<table>{''.join(lines)}</table>".encode()


def as_markdown(rows: Rows) -> bytes:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines).encode()


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "csv": as_csv,
    "html": as_html,
    "md": as_markdown,
    "docx": docx_table,
    "pdf": lambda rows: pdf_table(rows, columns=540 // len(rows[0])),
    "xlsx": xlsx,
    "odt": lambda rows: odt([], rows),
    "rtf": lambda rows: rtf([], rows),
    "pptx": lambda rows: pptx([("", [])], rows),
}

TABLES: list[tuple[Rows, list[Question]]] = [
    (
        [
            ["Part", "Price", "Stock", "Supplier"],
            ["Pump C-310", "31 EUR", "4", "Halvorsen"],
            ["Valve V-22", "12 EUR", "17", "Brandt & Sons"],
            ["Gasket G-5", "3 EUR", "250", "Halvorsen"],
            ["Filter F-90", "18 EUR", "36", "Okafor"],
        ],
        [
            ("How much does Pump C-310 cost?", "31 EUR"),
            ("Who supplies Valve V-22?", "Brandt & Sons"),
            ("How many of Gasket G-5 are in stock?", "250"),
            ("What is the price of Filter F-90?", "18 EUR"),
            ("Which part costs 12 EUR?", "Valve V-22"),
            ("Which part does Okafor supply?", "Filter F-90"),
        ],
    ),
    (
        [
            ["Course", "Day", "Time", "Room", "Teacher"],
            ["Pottery", "Monday", "18:30", "B12", "Ines Duarte"],
            ["Spanish", "Tuesday", "19:00", "A03", "Luis Ortega"],
            ["Yoga", "Wednesday", "07:15", "Gym", "Mira Chandra"],
            ["Chess", "Friday", "17:45", "A11", "Tomas Novak"],
        ],
        [
            ("Who teaches Spanish?", "Luis Ortega"),
            ("In which room is the pottery course?", "B12"),
            ("On which day is yoga?", "Wednesday"),
            ("What time does chess start?", "17:45"),
            ("Which course is on Friday?", "Chess"),
            ("Which course does Mira Chandra teach?", "Yoga"),
        ],
    ),
    (
        [
            ["River", "Length", "Source", "Mouth"],
            ["Danube", "2,850 km", "Black Forest", "Black Sea"],
            ["Elbe", "1,094 km", "Giant Mountains", "North Sea"],
            ["Rhone", "813 km", "Rhone Glacier", "Mediterranean Sea"],
        ],
        [
            ("How long is the Elbe?", "1,094 km"),
            ("Where is the source of the Danube?", "Black Forest"),
            ("Where does the Rhone end?", "Mediterranean Sea"),
            ("Which river ends in the North Sea?", "Elbe"),
        ],
    ),
    (
        [
            ["Name", "Department", "Phone", "Email"],
            ["Anna Becker", "Accounting", "5512", "becker@firm.example"],
            ["Jonas Vik", "Shipping", "5547", "vik@firm.example"],
            ["Priya Nair", "Legal", "5590", "nair@firm.example"],
        ],
        [
            ("What is the phone number of Jonas Vik?", "5547"),
            ("Which department does Priya Nair work in?", "Legal"),
            ("What is the email of Anna Becker?", "becker@firm.example"),
            ("Who works in Accounting?", "Anna Becker"),
        ],
    ),
    (
        [
            ["Dish", "Price", "Allergens", "Calories"],
            ["Lentil soup", "6.50", "celery", "320"],
            ["Fish pie", "13.90", "fish, milk", "710"],
            ["Green salad", "5.20", "mustard", "180"],
        ],
        [
            ("What does the fish pie cost?", "13.90"),
            ("Which allergens are in the lentil soup?", "celery"),
            ("How many calories has the green salad?", "180"),
            ("Which dish has 710 calories?", "Fish pie"),
        ],
    ),
    (
        [
            ["City", "Country", "Population", "Mayor"],
            ["Bergen", "Norway", "291,940", "Marit Warncke"],
            ["Porto", "Portugal", "248,769", "Pedro Duarte"],
            ["Gdansk", "Poland", "486,345", "Aleksandra Dulkiewicz"],
        ],
        [
            ("Who is the mayor of Porto?", "Pedro Duarte"),
            ("What is the population of Bergen?", "291,940"),
            ("In which country is Gdansk?", "Poland"),
            ("Which city is in Norway?", "Bergen"),
        ],
    ),
    (
        [
            ["Train", "From", "To", "Departure", "Platform"],
            ["IC 204", "Basel", "Hamburg", "08:12", "7"],
            ["RE 17", "Ulm", "Munich", "09:40", "3"],
            ["EC 88", "Verona", "Munich", "10:05", "11"],
        ],
        [
            ("When does RE 17 depart?", "09:40"),
            ("From which platform does IC 204 leave?", "7"),
            ("Where does EC 88 come from?", "Verona"),
            ("Which train goes to Hamburg?", "IC 204"),
        ],
    ),
    (
        [
            ["Planet", "Moons", "Year length", "Discovered by"],
            ["Neptune", "16", "60,190 days", "Johann Galle"],
            ["Uranus", "28", "30,687 days", "William Herschel"],
            ["Mars", "2", "687 days", "known since antiquity"],
        ],
        [
            ("Who discovered Uranus?", "William Herschel"),
            ("How many moons has Neptune?", "16"),
            ("How long is a year on Mars?", "687 days"),
            ("Which planet has 2 moons?", "Mars"),
        ],
    ),
    (
        [
            ["Invoice", "Customer", "Amount", "Due", "Status"],
            ["2024-071", "Larkspur Ltd", "1,240.00", "12 May 2024", "paid"],
            ["2024-072", "Bode & Co", "310.50", "19 May 2024", "open"],
            ["2024-073", "Quince GmbH", "88.00", "26 May 2024", "overdue"],
        ],
        [
            ("What is the status of invoice 2024-072?", "open"),
            ("When is the invoice of Quince GmbH due?", "26 May 2024"),
            ("What is the amount of the invoice of Larkspur Ltd?", "1,240.00"),
            ("Which invoice is overdue?", "2024-073"),
        ],
    ),
    (
        [
            ["Setting", "Default", "Meaning"],
            ["timeout", "30 s", "how long a request may take"],
            ["retries", "5", "how often a request is tried again"],
            ["cache_dir", "/var/cache/app", "where answers are kept"],
        ],
        [
            ("What is the default of timeout?", "30 s"),
            ("What is the default of cache_dir?", "/var/cache/app"),
            ("What is the meaning of retries?", "how often a request is tried again"),
            ("Which setting says where answers are kept?", "cache_dir"),
        ],
    ),
]


def is_right(reader: Reader, document: Document, question: str, expected: str) -> tuple[bool, str]:
    """Whether the answer is right, and what it is."""
    passages = Passages([""], [document.whole.text], [document])
    answers = reader.ask(question, passages.text)
    if not answers:
        return False, "not in this passage"
    here = passages.locate(answers[0])[1]
    original = html.unescape(document.original[here.start : here.end])
    is_in_place = normalize(original) == normalize(here.text)
    return is_in_place and normalize(here.text) == normalize(expected), here.text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", nargs="?", default="base")
    parser.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    reader = Reader.load(arguments.reader)
    right = 0
    count = 0
    formats = list(FORMATS)
    for number, (rows, questions) in enumerate(TABLES):
        for place, (question, expected) in enumerate(questions):
            format = formats[(number + place) % len(formats)]
            if arguments.bare:
                lines = "\n".join("\t".join(row) for row in rows)
                document = read_document("table.txt", lines.encode())
            else:
                document = read_document(f"table.{format}", FORMATS[format](rows))
            good, answer = is_right(reader, document, question, expected)
            right += good
            count += 1
            if not good:
                print(f"{format}: {question} {answer!r} instead of {expected!r}")
    print(f"{right} of {count} right ({right / count:.0%})")


if __name__ == "__main__":
    main()
