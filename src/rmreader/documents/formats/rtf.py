"""RTF documents, token by token: linear in the length, whatever is nested or left open."""

from __future__ import annotations

import re

from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import TextSpan
from rmreader.documents.tables import Table

_TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})?[ ]?"  # a control word with its number
    r"|\\'([0-9a-f]{2})"  # a character by its code
    r"|\\([^a-z0-9])"
    r"|([{}])"
    r"|[\r\n]++"
    r"|([^\\{}\r\n]++)",
    re.IGNORECASE,
)
_HIDDEN_GROUPS = """
fonttbl colortbl stylesheet info pict header headerl headerr headerf footer footerl footerr footerf
object fldinst listtable listoverridetable rsidtbl generator themedata colorschememapping datastore
latentstyles xmlnstbl filetbl revtbl bkmkstart bkmkend annotation
"""
_HIDDEN = frozenset(_HIDDEN_GROUPS.split())
_CHARACTERS = {
    "tab": "\t",
    "line": "\n",
    "emdash": "—",
    "endash": "–",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "bullet": "•",
    "emspace": " ",
    "enspace": " ",
}
_SYMBOLS = {"~": "\u00a0", "_": "-", "{": "{", "}": "}", "\\": "\\", "\n": "\n", "\r": "\n"}
_DEEPEST = 10_000  # groups within each other


def read_rtf(content: bytes, out: DocumentBuilder) -> None:
    """Write one line per paragraph or row of a table."""
    walk = _RtfWalk(out)
    for token in _TOKEN.finditer(content.decode("latin-1")):
        walk.add(token)
    walk.finish()


class _RtfWalk:
    """Where the walk is: in which group, hidden or not, and in which table."""

    def __init__(self, out: DocumentBuilder) -> None:
        self._out = out
        self._encoding = "cp1252"
        self._groups: list[tuple[bool, int]] = []
        self._is_hidden = False
        self._fallback = 1
        self._to_skip = 0
        self._in_table = False
        self._cells: list[TextSpan] = []
        self._table: Table | None = None

    def add(self, token: re.Match[str]) -> None:
        word, number, code, symbol, brace, text = token.groups()
        if brace:
            self._add_brace(brace)
            return
        if word:
            self._add_word(word.lower(), int(number) if number else None)
        elif code:
            self._write(bytes([int(code, 16)]).decode(self._encoding, "replace"))
        elif symbol == "*":
            self._is_hidden = True
        elif symbol in _SYMBOLS:
            self._write(_SYMBOLS[symbol])
        elif text:
            self._write(text.encode("latin-1").decode(self._encoding, "replace"))

    def finish(self) -> None:
        self._end_paragraph()
        self._end_table()

    def _add_brace(self, brace: str) -> None:
        self._to_skip = 0
        if brace == "{" and len(self._groups) < _DEEPEST:
            self._groups.append((self._is_hidden, self._fallback))
        elif brace == "}" and self._groups:
            self._is_hidden, self._fallback = self._groups.pop()

    def _add_word(self, word: str, number: int | None) -> None:
        if word in _HIDDEN:
            self._is_hidden = True
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif word == "u" and number is not None:
            self._write_code(number)
        elif word == "uc" and number is not None:
            self._fallback = min(max(0, number), 10)
        elif word == "ansicpg":
            self._encoding = f"cp{number}" if number in range(1250, 1259) else "cp1252"
        elif not self._is_hidden:
            self._add_structure(word)

    def _add_structure(self, word: str) -> None:
        match word:
            case "par" | "sect" | "page":
                self._end_paragraph()
            case "pard":
                self._in_table = False
            case "intbl":
                self._in_table = True
                self._table = self._table or Table(self._out)
            case "cell":
                self._cells.append(self._out.take_cell())
            case "row":
                table = self._table or Table(self._out)
                table.add(self._cells)
                self._table = table
                self._cells = []
                self._out.write_outside("\n")

    def _write_code(self, number: int) -> None:
        """Write a character by its number; what stands for it in older programs is skipped."""
        code = number % 65536
        self._to_skip = 0
        self._write("\ufffd" if 0xD800 <= code < 0xE000 or not code else chr(code))
        self._to_skip = self._fallback

    def _write(self, text: str) -> None:
        if self._is_hidden:
            return
        skipped = min(self._to_skip, len(text))
        self._to_skip -= skipped
        text = text[skipped:]
        if not text:
            return
        if self._table is not None and not self._in_table:
            self._end_table()
        self._out.write(text)

    def _end_paragraph(self) -> None:
        if self._in_table:
            if self._out.current.size:
                self._out.write(" ")
        else:
            self._out.end_line()

    def _end_table(self) -> None:
        if self._table is not None:
            self._table.end()
        self._table = None


FORMAT = BinaryFormat(
    name="an RTF document",
    suffixes=(".rtf",),
    read=read_rtf,
    offsets="the document's paragraphs and rows of tables, one per line, a tab after a cell",
    magic=b"{\\rtf",
)
