"""What happens to a request before and after it is answered: id, host, key, size, deadline, headers, log line, count.

Plain ASGI: every address is known beforehand, so a framework would only stand between this and the calls.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from rmreader.server.batcher import CLIENT, Batcher
from rmreader.server.logs import event, failure
from rmreader.server.metrics import Meters
from rmreader.server.schemas import Refused, Response, refuse
from rmreader.server.settings import Settings

if TYPE_CHECKING:
    from rmreader.server.transport import Connection

Headers = Mapping[bytes, bytes]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?")
DISCARD = 8  # an oversized body is read and thrown away up to this many times the limit, so that its sender hears why
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Route(NamedTuple):
    """What answers at an address: headers and body in, the response out."""

    method: str
    run: Callable[[Headers, bytes], Awaitable[Response]]


class Gate:
    """The app, and the one way into it."""

    def __init__(self, routes: Mapping[str, Route], settings: Settings, batcher: Batcher, meters: Meters) -> None:
        self.routes, self.settings, self.batcher, self.meters = routes, settings, batcher, meters
        self.key = settings.api_key.encode()
        self.unread: dict[Connection, asyncio.TimerHandle] = {}  # that do not take their answers, the oldest first
        self.listed = {name.strip().lower() for name in settings.host_names.split(",")} - {""}
        self.names = {*self.listed, settings.host.lower(), "localhost"}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request; its connection may cancel this when the client has gone."""
        visit, connection = Visit(scope), scope["connection"]
        connection.task = asyncio.current_task()
        CLIENT.set(str((scope["client"] or [""])[0]))  # of this task alone; whoever is at that address takes turns
        try:
            try:
                response = await self._admit(visit, receive)
            except Refused as refused:
                response = refused.response
            except Exception as error:  # never a traceback to the caller, never his words in the log
                event("failed", id=visit.id, **failure(error))
                told = "Something broke on our side; the log has it under this request's id."
                response = refuse(500, "internal", told)
            await self._send(visit, response, send)
        except asyncio.CancelledError:
            if not connection.lost:
                raise
            scope["cycle"].disconnected = True  # nobody is to be told that there was no answer
        finally:
            connection.task = None
            self._record(visit)

    async def _admit(self, visit: Visit, receive: Receive) -> Response:
        """The response to a request that may come in."""
        self._check_host(visit)
        if visit.path.startswith("/v1/"):
            self._check_key(visit.headers)
        route = self.routes.get(visit.path)
        if route is None:
            raise Refused(404, "not_found", "There is nothing at this address; /openapi.json lists what there is.")
        if route.method != ("GET" if visit.method == "HEAD" else visit.method):  # uvicorn leaves out the body of a HEAD
            message = "This address does not take that method; /openapi.json lists what it takes."
            raise Refused(405, "method_not_allowed", message, {"allow": route.method})
        if route.method == "GET":
            return await route.run(visit.headers, b"")
        try:
            async with asyncio.timeout(self.settings.deadline):
                body = await self._read(receive, visit)
                self.batcher.check_room()
                return await route.run(visit.headers, body)
        except TimeoutError:
            return self._late(visit)

    async def _read(self, receive: Receive, visit: Visit) -> bytes:
        """The body, unless it is larger than allowed, whether or not its length was announced."""
        limit, chunks = self.settings.max_body, []
        length = visit.headers.get(b"content-length", b"")
        visit.close = length.isdigit() and int(length[:20]) > limit * DISCARD
        while not visit.read and not visit.close:
            message = await receive()
            chunk = message.get("body", b"")
            visit.received += len(chunk)
            visit.read = not message.get("more_body", False)
            if visit.received <= limit:
                chunks.append(chunk)
            visit.close = visit.received > limit * DISCARD
        if visit.close or visit.received > limit:
            raise Refused(413, "too_large", f"The request is larger than {limit:,} bytes; send less text at once.")
        return b"".join(chunks)

    def _check_host(self, visit: Visit) -> None:
        """Refuse what a web page of another origin has its reader's browser send.

        A name that its owner points at this machine (DNS rebinding) is told by Host; an address is not such a name.
        """
        hosts = [value.decode("latin-1").lower() for name, value in visit.scope["headers"] if name == b"host"]
        if not hosts and visit.scope["http_version"] == "1.0":
            return
        parts = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if parts is None:
            raise Refused(400, "bad_request", "The request must have one Host header that names a host.")
        name = parts[1].rstrip(".")
        if name not in self.names and "*" not in self.names and not is_address(name):
            message = "This server does not answer for the name in Host; it does if started with it in --host-names."
            raise Refused(421, "wrong_host", message)
        origin = visit.headers.get(b"origin", b"://" + hosts[0].encode("latin-1")).decode("latin-1").lower()
        parts = HOST.fullmatch(place := origin.partition("://")[2])
        if place != hosts[0] and (parts is None or parts[1] not in self.listed):  # a proxy may change Host alone
            raise Refused(403, "other_origin", "A web page of another origin may not ask this server.")

    def _check_key(self, headers: Headers) -> None:
        if not self.key:
            return
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        if not hmac.compare_digest(given, self.key):
            message = "This server asks for its API key, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
            raise Refused(401, "unauthorized", message, {"www-authenticate": "Bearer"})

    def _late(self, visit: Visit) -> Response:
        if visit.read:
            message = f"No answer within {self.settings.deadline:g} seconds; ask again later, or about less text."
            return refuse(504, "deadline", message)
        visit.close = True
        message = f"The request did not arrive within {self.settings.deadline:g} seconds; send it faster, or send less."
        return refuse(408, "slow_request", message)

    async def _send(self, visit: Visit, response: Response, send: Send) -> None:
        headers = [*response.raw_headers(), *HEADERS, (b"x-request-id", visit.id.encode())]
        if visit.close or self.batcher.draining:
            headers.append((b"connection", b"close"))
        visit.status = response.status
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    def _record(self, visit: Visit) -> None:
        seconds = perf_counter() - visit.began
        self.meters.request(visit.path if visit.path in self.routes else "other", visit.status, seconds)
        event(
            "request", id=visit.id, method=visit.method, path=visit.path[:100], status=visit.status,
            ms=round(seconds * 1000, 1), bytes=visit.received,
        )  # fmt: skip


class Visit:
    """What is known of one request while it lasts."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.began = perf_counter()
        self.scope, self.method = scope, scope["method"]
        self.path: str = scope["path"].removesuffix("/") or "/"
        self.headers: Headers = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.id = given.decode() if SANE_ID.fullmatch(given) else secrets.token_hex(8)
        self.status = 0  # of the response, once it has begun; 0 in the log: the client left before
        self.received = 0  # bytes of body
        self.read = self.close = False


def is_address(name: str) -> bool:
    """Whether a host is an IP address."""
    try:
        return bool(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return False
