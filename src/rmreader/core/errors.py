"""The one exception whose message is meant for the person at the keyboard."""

from collections.abc import Iterator
from contextlib import contextmanager

# Control characters become the replacement character; the harmless ones become white space.
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\ufffd")
_CONTROLS |= {9: "\t", 10: "\n", 11: " ", 12: " ", 13: " "}

_LONGEST_QUOTE = 80


def printable(text: str) -> str:
    """Replace control characters, which a terminal would obey; the length stays."""
    return text.translate(_CONTROLS)


def quoted(value: object) -> str:
    """Quote a value in a sentence: on one line, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of 5,000 digits; lists 5,000 deep
        return f"a {type(value).__name__} too large to show"
    if len(text) <= _LONGEST_QUOTE:
        return text
    return f"{text[: _LONGEST_QUOTE - 1]}…"


class UserError(Exception):
    """Something the user can fix: one clear sentence naming the file, the place and the remedy.

    The command line prints the message alone and exits with ``status``; library users catch it by
    name. It quotes names and values from files of strangers, so control characters are replaced
    here, whoever prints it.
    """

    status = 1

    def __init__(self, sentence: str) -> None:
        if len(sentence) > 4000:  # longer than any path: it quotes a file at length
            sentence = f"{sentence[:3000]} … {sentence[-500:]}"
        super().__init__(printable(" ".join(sentence.splitlines())))


@contextmanager
def user_error_on(sentence: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn errors of these kinds into a ``UserError`` with this sentence.

    ``{why}`` in the sentence is replaced by what the error says.
    """
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        raise UserError(sentence.replace("{why}", reason(error))) from None


def reason(error: BaseException) -> str:
    """Say on one line what an error says; with its kind where the words alone mean little."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = " ".join(str(error).split())[:300]
    if words and isinstance(error, OSError | ValueError | RuntimeError):
        return words
    return f"{type(error).__name__}: {words}"
