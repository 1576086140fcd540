"""The one exception whose message is meant for the person at the keyboard."""

_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\ufffd") | {9: "\t", 10: "\n", 11: " ", 12: " ", 13: " "}


def printable(text: str) -> str:
    """The text, as long as before, without the characters that would command the terminal instead of being shown."""
    return text.translate(_CONTROLS)


def shown(value: object) -> str:
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
        super().__init__(" ".join(printable(sentence).splitlines()))
