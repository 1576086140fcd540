"""Runs the app under uvicorn, and ends it in order: unready, door closed, accepted requests answered, exit 0."""

import asyncio
import signal
import socket
import threading
from pathlib import Path
from types import FrameType

import uvicorn

from rmreader.core.errors import UserError
from rmreader.server.app import create_app
from rmreader.server.logs import event, to_stderr
from rmreader.server.middleware import Gate
from rmreader.server.settings import Settings
from rmreader.server.transport import Connection

KEEP_ALIVE = 75  # seconds: longer than balancers keep idle connections (60), so that they close them, not we


class HttpServer(uvicorn.Server):
    """uvicorn, which tells the app that it is about to stop, and returns instead of dying of the signal."""

    def __init__(self, app: Gate, settings: Settings, keep_alive: int = KEEP_ALIVE) -> None:
        config = uvicorn.Config(
            app, interface="asgi3", http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=int(settings.deadline) + 2,  # by then whatever was accepted has its answer
        )  # fmt: skip
        super().__init__(config)
        self.settings, self.batcher = settings, app.batcher

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        async with self.batcher.running():
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the door, and say where it is once it is open."""
        await super().startup(sockets)
        hangup = getattr(signal, "SIGHUP", None)  # not on Windows
        if hangup and threading.current_thread() is threading.main_thread():  # noqa: SIM102
            if signal.getsignal(hangup) != signal.SIG_IGN:  # as under nohup
                signal.signal(hangup, self.handle_exit)
        host, port = sockets[0].getsockname()[:2] if sockets else ("", 0)
        event("serving", url=f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door and wait for what was accepted; a connection that outlasts even that is cut off."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # in which the loop lets go of them: what is open when it closes is never closed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM, SIGHUP or Ctrl-C: a word to the loop and no more, for it may come in the middle of anything."""
        asyncio.get_event_loop().call_soon_threadsafe(self._drain, sig)

    def _drain(self, sig: int) -> None:
        """Close the door after the delay; a second signal does not wait."""
        if self.batcher.draining:
            self.should_exit = self.force_exit = True
            return
        self.batcher.draining = True
        event("draining", signal=signal.Signals(sig).name, waiting=len(self.batcher.pending))
        delay = self.settings.drain_delay if sig != signal.SIGINT else 0.0
        asyncio.get_running_loop().call_later(delay, setattr, self, "should_exit", True)


def listen(settings: Settings) -> socket.socket:
    """The socket to serve on; an address that cannot be had is a sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named, asyncio sets TCP_NODELAY; without, every response waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen()  # at once: with SO_REUSEADDR two servers may bind one port, and only one may listen
    except (OSError, TypeError) as error:  # of the second kind is a name that has no form in ASCII
        listener.close()
        where, why = f"{settings.host}:{settings.port}", getattr(error, "strerror", None) or error
        raise UserError(f"{where}: cannot listen there ({why}); choose another --host or --port.") from None
    return listener


def serve(name: str = "small", settings: Settings | None = None) -> None:
    """Load a reader, and open an index, and serve them until SIGTERM or Ctrl-C."""
    from rmreader.documents.shelf import Shelf
    from rmreader.reading.reader import Reader

    settings = settings or Settings()
    to_stderr()
    shelf = Shelf.open(settings.index) if settings.index else None
    if shelf is not None:
        shelf.index.size()  # what is no index is refused before the door opens
    listener = listen(settings)
    reader = Reader.load(name, threads=settings.threads or None, max_length=settings.max_answer_length or None)
    next(iter(reader.ask_many([("Is it warm?", "It is warm now.")])))  # the first question pays for set-up
    HttpServer(create_app(reader, settings, Path(name).name, shelf), settings).run(sockets=[listener])
    event("stopped")
