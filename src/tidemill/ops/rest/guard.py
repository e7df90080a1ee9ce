"""Checks of every request to the REST server, including requests for paths that do not exist.

The checks are made in this order, each with its own status:

0. The length of the body must be specified in only one way (400). Otherwise a proxy in front of the server might use
   the other one, and treat the rest of the body as the next request.
1. The ``Host`` must be a name of this server (403). This prevents DNS rebinding by other web pages.
2. The ``Origin``, if present, must be this server (403): other web pages must not send requests.
3. A client that sends too many requests is rejected (429). Requests from other web pages are not counted, because one
   of them could otherwise use up the limit of its visitor.
4. A token must be present if one is required (401), and must permit the request (403). Changes require *operate*. The
   files of the web page contain no data and need no token.
5. A browser must send ``X-Tidemill-Request`` with a change (403), which a form on another web page cannot do.
6. A body must be JSON (415), not too long (413), and arrive in time (408). If programs are accepted, the body of an
   upload is a form, may be longer, and is streamed.

Responses have headers that prevent browsers from embedding them in other pages and from guessing their content type.
Internal errors are logged, and reported without details (500). Each request to operate is logged. Repeated reads of the
same data are logged once a minute, and rejected requests of a client at most ten times a second.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.config.redaction import redacted
from tidemill.ops.access import same_secret
from tidemill.ops.rest.notices import AUDIT
from tidemill.ops.rest.settings import RestSettings

__all__ = ["CSRF_HEADER", "SAFE_HEADERS", "Grant", "RequestGuard", "error_body"]

log = logging.getLogger(__name__)
audit = logging.getLogger(AUDIT)

CSRF_HEADER: Final = "X-Tidemill-Request"
LONGEST_BODY: Final = 64 << 10
BODY_SECONDS: Final = 10.0
#: Paths for uploads of programs, and the maximum size of an upload, including the form.
UPLOAD_PATHS: Final = ("/jars/upload", "/v1/jars/upload")
LONGEST_UPLOAD: Final = 50 << 20
UPLOAD_SECONDS: Final = 120.0
#: How long a client may take to receive one part of a response before the next part is sent.
SEND_SECONDS: Final = 30.0
_READING: Final = ("GET", "HEAD")
#: Maximum number of clients whose request rate is tracked.
_CLIENTS: Final = 1024
#: For how many seconds a repeated read is not logged again, and how many reads are remembered.
_NOTED_SECONDS: Final = 60.0
_LOOKS: Final = 1024
#: Maximum length of a path in the log.
_LONGEST_NOTED: Final = 200
#: Maximum number of rejected requests of a client that are logged per second, so that it cannot fill the log.
_REFUSALS: Final = (401, 403, 429)
_NOTED_REFUSALS: Final = 10
#: Size of a burst of requests, in seconds of the rate limit.
_BURST: Final = 2.0

_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Headers of all responses. A response that browsers may cache overrides cache-control.
SAFE_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Grant(IntEnum):
    """What a client may do."""

    READ = 1
    OPERATE = 2


class _Refused(Exception):  # noqa: N818 - it is a response
    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = tuple(headers)


def error_body(*messages: str) -> bytes:
    """Return the body of an error response in Flink's format, without secrets."""
    return json.dumps({"errors": [redacted(message) for message in messages]}).encode()


class _Rates:
    """Limits the request rate of each client, with bursts."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, client: str, now: float) -> bool:
        most = self._per_second * _BURST
        left, then = self._left.pop(client, (most, now))
        left = min(most, left + (now - then) * self._per_second)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


class _Looks:
    """The recent reads of each client. A web page repeats its requests every few seconds."""

    def __init__(self) -> None:
        self._noted: OrderedDict[tuple[object, ...], float] = OrderedDict()

    def is_new(self, look: tuple[object, ...], now: float) -> bool:
        noted = self._noted.get(look)
        if noted is not None and now - noted < _NOTED_SECONDS:
            return False
        self._noted[look] = now
        self._noted.move_to_end(look)
        if len(self._noted) > _LOOKS:
            self._noted.popitem(last=False)
        return True


class RequestGuard:
    """The middleware with the checks. Runs only in the event loop of the server."""

    def __init__(self, app: ASGIApp, settings: RestSettings, open_paths: Collection[str] = ()) -> None:
        self._app = app
        self._settings = settings
        self._open_paths = frozenset(open_paths)
        self._rates = _Rates(settings.requests_per_second)
        self._looks = _Looks()
        self._refusals = _Rates(_NOTED_REFUSALS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # web sockets are not supported
        answer = _Answer(send)
        scope.setdefault("state", {})
        try:
            self._admit(scope)
            if self._settings.submit and scope["method"] == "POST" and scope["path"] in UPLOAD_PATHS:
                coming = _upload(scope, receive)
            else:
                coming = _replayed(await _body_of(scope, receive), receive)
            await self._app(scope, coming, answer.send)
        except _Refused as refused:
            await answer.refuse(refused.status, str(refused), refused.headers)
        except Exception as error:
            await self._failed(scope, answer, error)
        finally:
            if scope["method"] not in _READING or scope["state"].get("operating"):
                self._note(scope, answer.status)

    def _admit(self, scope: Scope) -> None:
        """Check a request, and store the permissions of the client in the scope. Raises :class:`_Refused`."""
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # 0
            message = "a request must have either a Content-Length or a Transfer-Encoding, not both"
            raise _Refused(400, message, [(b"connection", b"close")])
        host = headers.get("host", "")
        if not self._settings.answers_to(host):  # 1
            raise _Refused(403, "this server does not serve this host name; see rest.address")
        origin = headers.get("origin")
        if not self._is_ours(origin, scope["scheme"], host) or _is_of_other_page(scope["method"], headers):  # 2
            raise _Refused(403, "requests from other web pages are rejected")
        if not self._rates.admits(_client(scope), time.monotonic()):  # 3
            raise _Refused(429, "too many requests: try again in a second", [(b"retry-after", b"1")])
        if scope["method"] in _READING and scope["path"] in self._open_paths:
            scope["state"]["grant"] = Grant.READ
            return
        grant = scope["state"]["grant"] = self._grant(headers.get("authorization", ""))  # 4
        if scope["method"] not in _READING:
            if grant < Grant.OPERATE:
                raise _Refused(403, "this token only permits reading: use the token of rest.operate-token")
            from_browser = origin is not None or "sec-fetch-site" in headers
            if from_browser and CSRF_HEADER not in headers:  # 5
                raise _Refused(403, f"a browser must send the header {CSRF_HEADER} with a request that makes changes")

    def _is_ours(self, origin: str | None, scheme: str, host: str) -> bool:
        """Whether an origin is this server, or a proxy in front of it that terminates HTTPS."""
        if origin is None:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if (parts.scheme, parts.netloc.lower()) == (scheme, host.lower()):
            return True
        address = self._settings.address
        return address is not None and (parts.scheme, parts.hostname) == ("https", address.lower())

    def _grant(self, authorization: str) -> Grant:
        settings = self._settings
        if not settings.needs_token:
            return Grant.OPERATE
        # Both are always compared, so that the response time reveals nothing.
        scheme, _, token = authorization.partition(" ")
        operates = same_secret(token, settings.operate_token or secrets.token_hex(32))
        reads = same_secret(token, settings.read_token or secrets.token_hex(32))
        if scheme.lower() == "bearer" and (operates or reads):
            return Grant.OPERATE if operates else Grant.READ
        raise _Refused(401, "a token is required: Authorization: Bearer ...", [(b"www-authenticate", b"Bearer")])

    async def _failed(self, scope: Scope, answer: _Answer, error: Exception) -> None:
        if answer.status is not None:
            log.debug("a response to %s did not complete: %r", _client(scope), error)
            return  # the connection is closed before the end of the response, so that the client detects the failure
        reference = secrets.token_hex(4)
        place = redacted(scope["path"])
        log.error("a request failed (%s): %s %s", reference, scope["method"], place, exc_info=error)
        await answer.refuse(500, f"internal error; for details, see the log of the driver under {reference}")

    def _note(self, scope: Scope, status: int | None) -> None:
        state = scope["state"]
        grant, certificate = state.get("grant"), state.get("certificate")
        who = "nobody" if grant is None else "anybody" if self._settings.is_open else grant.name.lower()
        if certificate is not None:
            who = f"{who}, certified as {_plain(certificate)},"
        seen = (who, _client(scope), scope["method"], _plain(redacted(scope["path"][:_LONGEST_NOTED])), status)
        now = time.monotonic()
        if status in _REFUSALS and not self._refusals.admits(_client(scope), now):
            return
        if scope["method"] not in _READING or self._looks.is_new(seen, now):
            audit.info("%s at %s: %s %s -> %s", *seen)


class _Answer:
    """Sends a response with the common headers, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = list(message.get("headers", ()))
            named = {name for name, _ in own}
            message = {**message, "headers": own + [header for header in SAFE_HEADERS if header[0] not in named]}
        with anyio.fail_after(SEND_SECONDS):
            await self._send(message)

    async def refuse(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        body = error_body(message)
        told = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
        await self.send({"type": "http.response.start", "status": status, "headers": told})
        await self.send({"type": "http.response.body", "body": body})


def _client(scope: Scope) -> str:
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else "unknown"


def _plain(text: str) -> str:
    """Escape and truncate text from a client for a line of the log."""
    return text.encode("unicode_escape").decode()[:_LONGEST_NOTED]


def _is_of_other_page(method: str, headers: Headers) -> bool:
    """Whether a browser indicates that another web page sends the request.

    Following a link from another page is allowed, because that page cannot read the response.
    """
    followed = method in _READING and headers.get("sec-fetch-mode") == "navigate"
    is_page = followed and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_page


async def _body_of(scope: Scope, receive: Receive) -> bytes:
    """Read the whole body."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LONGEST_BODY:
        raise _Refused(413, f"a body may have at most {LONGEST_BODY} bytes")
    chunks: list[bytes] = []
    size = 0
    try:
        with anyio.fail_after(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Refused(400, "the body is incomplete")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                more = message.get("more_body", False)
                if size > LONGEST_BODY:
                    raise _Refused(413, f"a body may have at most {LONGEST_BODY} bytes")
    except TimeoutError:
        raise _Refused(408, f"the body did not arrive within {BODY_SECONDS:.0f} s") from None
    if size and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Refused(415, "a body must be JSON: Content-Type: application/json")
    return b"".join(chunks)


def _upload(scope: Scope, receive: Receive) -> Receive:
    """Return a function that receives the body of an upload part by part.

    It raises :class:`_Refused` if the body is too long, or takes too long.
    """
    headers = Headers(scope=scope)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        raise _Refused(415, "a program must be uploaded as a form: Content-Type: multipart/form-data")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LONGEST_UPLOAD:
        raise _Refused(413, f"an upload may have at most {LONGEST_UPLOAD} bytes")
    until = time.monotonic() + UPLOAD_SECONDS
    size, more = 0, True

    async def coming() -> dict[str, Any]:
        nonlocal size, more
        if not more:
            return dict(await receive())
        try:
            with anyio.fail_after(until - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise _Refused(408, f"the upload did not arrive within {UPLOAD_SECONDS:.0f} s") from None
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
        if size > LONGEST_UPLOAD:
            raise _Refused(413, f"an upload may have at most {LONGEST_UPLOAD} bytes")
        return dict(message)

    return coming


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> dict[str, Any]:
        nonlocal given
        if given:
            return dict(await receive())
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
