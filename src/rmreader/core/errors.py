"""The one exception whose message is meant for the person at the keyboard."""

from collections.abc import Iterator
from contextlib import contextmanager

_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\ufffd") | {9: "\t", 10: "\n", 11: " ", 12: " ", 13: " "}


def printable(text: str) -> str:
    """The text, as long as before, without the characters that would command the terminal instead of being shown."""
    return text.translate(_CONTROLS)


def quoted(value: object) -> str:
    """A value as a sentence quotes it: on one line, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of 5,000 digits; lists 5,000 deep
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 80 else f"{text[:79]}…"


class UserError(Exception):
    """Something the user can fix: one clear sentence naming the file, the place and the remedy.

    The command line prints the message alone and exits with ``status``; library users catch it by name. Names and
    values out of files from strangers are quoted in it, so it is made harmless here, whoever prints it.
    """

    status = 1

    def __init__(self, sentence: str) -> None:
        if len(sentence) > 4000:  # longer than any path: it quotes a file at length
            sentence = f"{sentence[:3000]} … {sentence[-500:]}"
        super().__init__(printable(" ".join(sentence.splitlines())))


@contextmanager
def user_error_on(sentence: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Within, an error of these kinds becomes this sentence, with what the error says in place of ``{why}``."""
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        raise UserError(sentence.replace("{why}", reason(error))) from None


def reason(error: BaseException) -> str:
    """What an error says, on one line; its kind too, where the words alone would mean little."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = " ".join(str(error).split())[:300]
    plain = words and isinstance(error, OSError | ValueError | RuntimeError)
    return words if plain else f"{type(error).__name__}: {words}"
