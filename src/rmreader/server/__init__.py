"""The HTTP API and the web page, as a plain ASGI app.

``application.py`` puts the app together, ``endpoints.py`` answers the calls, ``batcher.py`` queues
and reads the questions, ``server.py`` and ``transport.py`` are what ``rmreader serve`` runs it on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette


def app(model: str = "", **settings: Any) -> Starlette:
    """Build the ASGI app: ``uvicorn --factory rmreader.server:app``, or any other ASGI server.

    ``model`` and every field of ``Settings`` can be given as arguments; what is not given is taken
    from the environment (``RMREADER_MODEL``, ``RMREADER_INDEX``, ``RMREADER_DEADLINE``, ...).
    """
    from rmreader.server.application import app_from_environment

    return app_from_environment(model, settings)
