"""``rmreader serve``: the app under uvicorn, with a graceful end.

On a signal /readyz turns 503; then the listening socket is closed, what was accepted is answered,
and the process ends with status 0.
"""

import asyncio
import select
import signal
import socket
import threading
import time
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from rmreader.core.errors import UserError
from rmreader.server.application import load_app
from rmreader.server.batcher import Batcher
from rmreader.server.logs import event, to_stderr
from rmreader.server.settings import Settings
from rmreader.server.transport import Limits, protection

KEEP_ALIVE = 75  # seconds; balancers close idle connections after 60, so they do it and not we
LAST_ACCEPT = 1.0  # seconds of this thread's work, at most, to accept what waits at the end


class HttpServer(uvicorn.Server):
    """uvicorn, which turns unready before it stops, and returns instead of dying of the signal."""

    def __init__(self, app: Starlette, settings: Settings, keep_alive: int = KEEP_ALIVE) -> None:
        config = uvicorn.Config(
            app,
            interface="asgi3",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=keep_alive,
            # By then whatever was accepted has its answer.
            timeout_graceful_shutdown=int(settings.deadline) + 2,
        )
        super().__init__(config)
        self.settings = settings
        self.limits = Limits.of(settings)
        self.batcher: Batcher = app.state.batcher

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the listening socket, and say where once it is open."""
        protocol = await protection(self.limits)
        if protocol is not None:
            self.config.http_protocol_class = protocol  # type: ignore[assignment]
        await super().startup(sockets)
        self._drain_on_hangup()
        host, port = sockets[0].getsockname()[:2] if sockets else ("", 0)
        event("serving", url=f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def _drain_on_hangup(self) -> None:
        """Stop gracefully on SIGHUP too, unless it is ignored, as under nohup."""
        hangup = getattr(signal, "SIGHUP", None)  # not on Windows
        is_main = threading.current_thread() is threading.main_thread()
        if hangup and is_main and signal.getsignal(hangup) != signal.SIG_IGN:
            signal.signal(hangup, self.handle_exit)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening and wait for what was accepted; then cut off what is still open."""
        await accept_waiting(sockets or [])
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        # The loop lets go of them here: what is open when it closes is never closed.
        await asyncio.sleep(0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Tell the loop of a signal, and no more: it may come in the middle of anything."""
        asyncio.get_event_loop().call_soon_threadsafe(self._drain, sig)

    def _drain(self, sig: int) -> None:
        """Stop listening after the delay; a second signal does not wait."""
        if self.batcher.draining:
            self.should_exit = True
            self.force_exit = True
            return
        self.batcher.draining = True
        event("draining", signal=signal.Signals(sig).name, waiting=len(self.batcher.pending))
        delay = self.settings.drain_delay if sig != signal.SIGINT else 0.0
        asyncio.get_running_loop().call_later(delay, setattr, self, "should_exit", True)


async def accept_waiting(sockets: list[socket.socket]) -> None:
    """Let the loop accept the connections that wait: closing the socket would reset them.

    On a busy machine seconds go by in which nothing could be accepted: work is counted, not time.
    """
    end = time.thread_time() + LAST_ACCEPT
    while time.thread_time() < end:
        waiting, _, _ = select.select(sockets, [], [], 0)
        if not waiting:
            return
        await asyncio.sleep(0)


def listen(settings: Settings) -> socket.socket:
    """Open the socket to serve on; an address that cannot be had is one sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named, asyncio sets TCP_NODELAY; without it every response waits 40 ms for
    # an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        # At once: with SO_REUSEADDR two servers may bind one port, and only one may listen.
        listener.listen()
    except (OSError, TypeError) as error:  # TypeError: a name that has no form in ASCII
        listener.close()
        place = f"{settings.host}:{settings.port}"
        reason = getattr(error, "strerror", None) or error
        message = f"{place}: cannot listen there ({reason}); choose another --host or --port."
        raise UserError(message) from None
    return listener


def serve(name: str = "small", settings: Settings | None = None) -> None:
    """Load a reader and an index, if there is one, and serve them until SIGTERM or Ctrl-C."""
    settings = settings or Settings()
    to_stderr(settings.log)
    with listen(settings) as listener:
        app = load_app(name, settings)
        HttpServer(app, settings).run(sockets=[listener])
    event("stopped")
