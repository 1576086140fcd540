"""Give it a passage and a question, it points at the answer: the Reinforced Mnemonic Reader (Hu et al., IJCAI 2018).

>>> from rmreader import Reader
>>> Reader.load().ask("Who wrote it?", "The letter was written by Ada Lovelace.")[0].text
'Ada Lovelace'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmreader.errors import UserError
from rmreader.version import __version__

if TYPE_CHECKING:
    from rmreader.reading.answering.reader import Answer, Explanation, Reader

__all__ = ["Answer", "Explanation", "Reader", "UserError", "__version__"]


def __getattr__(name: str) -> Any:
    """The public names, fetched when first used, so that importing the package costs nothing."""
    if name in ("Answer", "Explanation", "Reader"):
        from rmreader.reading.answering import reader

        return getattr(reader, name)
    raise AttributeError(f"module 'rmreader' has no attribute {name!r}")
