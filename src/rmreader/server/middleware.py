"""What happens to every request before and after its endpoint: plain ASGI middleware.

From the outside in: ``RequestMiddleware`` (id, log line, count, headers, failures),
``HostMiddleware`` (host and origin), Starlette's CORS where origins are allowed, ``KeyMiddleware``.
"""

import hmac
import ipaddress
import random
import re
from collections.abc import Iterable
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rmreader.server.batcher import CLIENT, Batcher
from rmreader.server.logs import event, failure
from rmreader.server.metrics import Metrics
from rmreader.server.responses import Refused, refuse
from rmreader.server.settings import Settings

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?")
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class RequestInfo:
    """What is known of one request while it lasts."""

    def __init__(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self.start = perf_counter()
        self.method: str = scope["method"]
        self.path = route_path(scope)
        self.id = request_id(headers.get("x-request-id", ""))
        self.trace_id = trace_id(headers.get("traceparent", ""))
        self.received = 0  # bytes of body
        self.status = 0  # of the response, once it has begun; 0 in the log: the client left before


class RequestMiddleware:
    """Gives a request its id, log line and count, and its response the headers all of them have.

    An exception that no endpoint expected becomes a 500 here. The caller never sees a traceback,
    and the log never sees the caller's words.
    """

    def __init__(
        self, app: ASGIApp, batcher: Batcher, metrics: Metrics, paths: Iterable[str]
    ) -> None:
        self.app = app
        self.batcher = batcher
        self.metrics = metrics
        self.paths = set(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        info = RequestInfo(scope)
        # A slash at the end of an address makes no difference.
        scope["path"] = mount_path(scope) + info.path
        # Requests from one address are one client, whose calls take turns.
        client = scope.get("client")
        CLIENT.set(str(client[0]) if client else "")
        # The lifespan starts the batcher; an app that is mounted in another one has no lifespan.
        self.batcher.start()

        async def counted_receive() -> Message:
            message = await receive()
            info.received += len(message.get("body", b""))
            return message

        async def completed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete(message, scope, info)
            elif info.method == "HEAD":
                message["body"] = b""
            await send(message)

        try:
            await self.app(scope, counted_receive, completed_send)
        except ClientDisconnect:
            pass
        except Exception as error:
            event("failed", id=info.id, **failure(error))
            if not info.status:
                message = "Something broke on our side; the log has it under this request's id."
                await refuse(500, "internal", message)(scope, receive, completed_send)
        finally:
            self._record(info)

    def _complete(self, message: Message, scope: Scope, info: RequestInfo) -> None:
        """Note the status, and add the headers that every response has."""
        info.status = message["status"]
        headers = [*message["headers"], *RAW_HEADERS, (b"x-request-id", info.id.encode())]
        message["headers"] = headers
        # HTTP/2 and later have no such header.
        if self.batcher.draining and scope["http_version"] in ("1.0", "1.1"):
            MutableHeaders(raw=headers)["connection"] = "close"

    def _record(self, info: RequestInfo) -> None:
        seconds = perf_counter() - info.start
        path = info.path if info.path in self.paths else "other"
        self.metrics.count_request(path, info.status, seconds)
        fields = {
            "id": info.id,
            "method": info.method,
            "path": info.path[:100],
            "status": info.status,
            "ms": round(seconds * 1000, 1),
            "bytes": info.received,
        }
        if info.trace_id:
            fields["trace_id"] = info.trace_id
        event("request", **fields)


class HostMiddleware:
    """Refuses what a web page of another origin has its visitor's browser send.

    A name that its owner points at this machine (DNS rebinding) shows in Host; an IP address is no
    such name. A page of another origin shows in Origin.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.listed = set(comma_list(settings.host_names))
        self.names = {*self.listed, settings.host.lower(), "localhost"}
        self.origins = set(comma_list(settings.cors))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is for this host."""
        if scope["type"] == "http":
            try:
                self.check(scope)
            except Refused as refused:
                await refused.response(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def check(self, scope: Scope) -> None:
        """Raise ``Refused`` unless every Host and Origin of a request is allowed."""
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if not hosts and scope["http_version"] == "1.0":
            return
        match = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None:
            message = "The request must have one Host header that names a host."
            raise Refused(400, "bad_request", message)
        if not self._is_ours(match[1].rstrip(".")):
            raise Refused(
                421,
                "wrong_host",
                "This server does not answer for the name in Host; "
                "it does if started with it in --host-names.",
            )
        # All of them: another server in between may have looked at a different one.
        for origin in headers.getlist("origin"):
            if not self._is_allowed(origin.lower(), hosts[0]):
                message = "A web page of another origin may not ask this server."
                raise Refused(403, "other_origin", message)

    def _is_ours(self, name: str) -> bool:
        return name in self.names or "*" in self.names or is_address(name)

    def _is_allowed(self, origin: str, host: str) -> bool:
        if origin in self.origins or "*" in self.origins:
            return True
        place = origin.partition("://")[2]
        match = HOST.fullmatch(place)
        # A proxy may change Host alone, so the listed names count in Origin too.
        return place == host or (match is not None and match[1] in self.listed)


class KeyMiddleware:
    """Asks for the API key, where the server has one: at ``paths``, and anywhere under /v1."""

    def __init__(self, app: ASGIApp, api_key: str, paths: Iterable[str]) -> None:
        self.app = app
        self.api_key = api_key.encode()
        self.paths = set(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that has the key, or needs none."""
        if scope["type"] == "http" and not self._may_pass(scope):
            message = (
                "This server asks for its API key, "
                "as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
            )
            response = refuse(401, "unauthorized", message, {"www-authenticate": "Bearer"})
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        path = route_path(scope)
        needs_key = path in self.paths or path.startswith("/v1/")
        if not self.api_key or not needs_key:
            return True
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(key.encode("latin-1"), self.api_key)


def mount_path(scope: Scope) -> str:
    """Return the part of the path under which this app is mounted in another one; usually empty."""
    root: str = scope.get("root_path", "").rstrip("/")
    path: str = scope["path"]
    return root if path == root or path.startswith(f"{root}/") else ""


def route_path(scope: Scope) -> str:
    """Return the path within this app, without a slash at its end."""
    path: str = scope["path"].removeprefix(mount_path(scope))
    return path.removesuffix("/") or "/"


def request_id(header: str) -> str:
    """Return the caller's id of a request where it is sane, or a new one.

    An id is no secret, so the system is not asked for random bytes.
    """
    return header if REQUEST_ID.fullmatch(header) else f"{random.getrandbits(64):016x}"


def trace_id(header: str) -> str:
    """Return the trace id of a W3C ``traceparent``; empty where there is none."""
    match = TRACEPARENT.fullmatch(header)
    return match[1] if match else ""


def comma_list(text: str) -> list[str]:
    """Split a setting of several names, in lower case."""
    names = [name.strip().lower() for name in text.split(",")]
    return [name for name in names if name]


def is_address(name: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
