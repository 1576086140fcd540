"""What a question costs the reader, estimated before it is read.

This takes a tenth of the time that finding the tokens would.
"""

WINDOW = 400  # tokens of a window of a long passage
NEW = 274  # tokens of a window that the window before did not have
FIXED_COST = 20  # tokens that a window costs on top of its own length


def _kind(character: str) -> str:
    """Classify a character: space, letter, digit, or a token by itself."""
    if character.isspace():
        return " "
    if character.isalpha():
        return "a"
    return "0" if character.isdigit() else "."


_KINDS = "".join(_kind(chr(code)) for code in range(256)).encode()
_TOKEN_STARTS = (b" a", b"0a", b".a", b" 0", b"a0", b".0")


def count_tokens(text: str) -> int:
    """Count the tokens of a text, rather too many: each character beyond ASCII counts as one."""
    kinds = b" " + text.encode("ascii", "replace").translate(_KINDS)
    return kinds.count(b".") + sum(map(kinds.count, _TOKEN_STARTS))


def window_cost(question: str, length: int = WINDOW) -> int:
    """Estimate one window, and the question, which is read again with each at half the price."""
    return length + count_tokens(question) // 2 + FIXED_COST


def weigh(question: str, passage: str) -> int:
    """Estimate a question about a passage, in tokens of a short passage."""
    length = count_tokens(passage)
    if length <= WINDOW:
        return window_cost(question, length)
    return (1 + length // NEW) * window_cost(question)


def weigh_attention(question: str, passage: str) -> int:
    """Estimate an explanation: one token more for every thirty numbers that go into its JSON."""
    length = min(WINDOW, count_tokens(passage))
    numbers = length * (length + count_tokens(question))
    return weigh(question, passage) + numbers // 30
