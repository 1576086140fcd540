"""What a question costs the reader, judged before it is read and in a tenth of the time it takes to find its tokens."""

WINDOW, NEW = 400, 274  # tokens of a window of a long passage, and those that the window before did not have
FIXED_COST = 20  # tokens that a window costs the reader on top of its own length; a token of the question costs half

# Space, letter, digit, and what is a token by itself.
_KINDS = bytes(
    b" a0."[0 if c.isspace() else 1 if c.isalpha() else 2 if c.isdigit() else 3] for c in map(chr, range(256))
)


def count_tokens(text: str) -> int:
    """Tokens of a text. Of what is not ASCII each character counts as one, which is rather too much."""
    kinds = b" " + text.encode("ascii", "replace").translate(_KINDS)
    return kinds.count(b".") + sum(map(kinds.count, (b" a", b"0a", b".a", b" 0", b"a0", b".0")))


def window_cost(question: str, length: int = WINDOW) -> int:
    """What one window costs, and the question, which is read anew with each."""
    return length + count_tokens(question) // 2 + FIXED_COST


def weigh(question: str, passage: str) -> int:
    """What a question about a passage costs, in tokens of a short passage."""
    length = count_tokens(passage)
    if length <= WINDOW:
        return window_cost(question, length)
    return (1 + length // NEW) * window_cost(question)


def weigh_attention(question: str, passage: str) -> int:
    """What showing the attention costs: a token more for every thirty numbers of a round, which must go into JSON."""
    length = min(WINDOW, count_tokens(passage))
    return weigh(question, passage) + length * (length + count_tokens(question)) // 30
