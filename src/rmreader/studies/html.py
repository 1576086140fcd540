"""One self-contained page: nothing from outside, every text escaped."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fdfdfb; --soft: #6b6b6b; --line: #dcdcd6; --box: #ffffff;
        --first: #b3261e; --second: #1a56b0; --true: #1b6e3c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e4; --paper: #17181a; --soft: #a0a09a; --line: #3a3b3e; --box: #1f2023;
          --first: #ff8a80; --second: #8ab4f8; --true: #7bd69a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
table { border-collapse: collapse; margin: .8rem 0; } th, td { text-align: left; padding: .25rem 1.1rem .25rem 0;
        border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
"""


def page(title: str, body: str, style: str = "") -> str:
    """A whole HTML document; ``body`` and ``style`` are taken as they are, the title is escaped."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<h1>{text(title)}</h1>\n"
        f"{body}\n</body>\n</html>\n"
    )


def text(value: str) -> str:
    """A text made safe inside an element or an attribute; lone surrogates and control characters become U+FFFD."""
    printable = "".join(
        c if c in "\n\t\r" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF) else "\ufffd" for c in value
    )
    return escape(printable, quote=True)
