"""HTML for notebooks: no script, every text escaped."""

from html import escape

from rmreader.core.console import one_line

COLOUR = "46, 160, 67"  # readable under black and under white letters


def html_text(text: str) -> str:
    """The text as HTML on one line, without control characters and lone surrogates."""
    return escape(one_line(text)).encode("utf-8", "replace").decode()


def html_mark(text: str) -> str:
    """The text as HTML, marked."""
    style = f"background: rgba({COLOUR}, 0.35); color: inherit"
    return f'<mark style="{style}">{html_text(text)}</mark>'
