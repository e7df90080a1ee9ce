"""What stands before every request to the REST server, also before those to paths that do not exist.

In this order, and each with its status:

1. a client that asks too often is sent away (429);
2. the ``Host`` must be ours (403): a page elsewhere may have led its visitor's browser here by a name of its own;
3. the ``Origin`` must be ours, where there is one (403): other pages may not ask;
4. a token must be there where one is needed (401), and allow what is asked (403): to change anything takes *operate*;
5. a browser that changes something must send ``X-Tidemill-Request`` (403), which no form of another page can;
6. a body must be JSON (415), not too long (413), and come in time (408).

What is answered has headers that keep a browser from showing it inside of other pages or guessing what it is. What goes
wrong inside is logged, and told without any detail (500). Each request to operate leaves a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.ops.access import same_secret
from tidemill.ops.rest.settings import RestSettings
from tidemill.runtime.log_redaction import redacted

__all__ = ["CSRF_HEADER", "SAFE_HEADERS", "Grant", "Guard", "error_body"]

log = logging.getLogger(__name__)
audit = logging.getLogger("tidemill.audit")

CSRF_HEADER: Final = "X-Tidemill-Request"
LONGEST_BODY: Final = 64 << 10
BODY_SECONDS: Final = 10.0
#: How long a client may take to take what is sent to it before the next part is sent.
SEND_SECONDS: Final = 30.0
_READING: Final = ("GET", "HEAD")
#: How many clients the limit of requests tells apart.
_CLIENTS: Final = 1024
#: Requests that a client may make at once, in seconds of its limit.
_BURST: Final = 2.0

_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Those of all answers.
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


class _Refused(Exception):  # noqa: N818 - it is an answer
    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = tuple(headers)


def error_body(*messages: str) -> bytes:
    """Errors as Flink tells them, without secrets."""
    return json.dumps({"errors": [redacted(message) for message in messages]}).encode()


class _Rates:
    """How often each client asks: so many requests a second, and some more at once."""

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


class Guard:
    """The middleware. Runs in the server's event loop only."""

    def __init__(self, app: ASGIApp, settings: RestSettings) -> None:
        self._app = app
        self._settings = settings
        self._rates = _Rates(settings.requests_per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there are no web sockets
        answer = _Answer(send)
        try:
            grant = self._admit(scope)
            scope.setdefault("state", {})["grant"] = grant
            body = await _body_of(scope, receive)
            await self._app(scope, _replayed(body, receive), answer.send)
        except _Refused as refused:
            await answer.refuse(refused.status, str(refused), refused.headers)
        except Exception as error:
            await self._failed(scope, answer, error)
        finally:
            if scope["method"] not in _READING or scope.get("state", {}).get("operating"):
                self._note(scope, answer.status)

    def _admit(self, scope: Scope) -> Grant:
        headers = Headers(scope=scope)
        if not self._rates.admits(_client(scope), time.monotonic()):  # 1
            raise _Refused(429, "too many requests: try again in a second", [(b"retry-after", b"1")])
        host = headers.get("host", "")
        if not self._settings.answers_to(host):  # 2
            raise _Refused(403, "this server is not known by that name; see rest.address")
        origin = headers.get("origin")
        if not self._is_ours(origin, scope["scheme"], host) or _is_of_other_page(scope["method"], headers):  # 3
            raise _Refused(403, "requests of other pages are refused")
        grant = self._grant(headers.get("authorization", ""))  # 4
        if scope["method"] not in _READING:
            if grant < Grant.OPERATE:
                raise _Refused(403, "this token may only read: use the one of rest.operate-token")
            from_browser = origin is not None or "sec-fetch-site" in headers
            if from_browser and CSRF_HEADER not in headers:  # 5
                raise _Refused(403, f"a browser must send the header {CSRF_HEADER} to change something")
        return grant

    def _is_ours(self, origin: str | None, scheme: str, host: str) -> bool:
        """Whether an origin is this server's, also that of a proxy before it which speaks HTTPS for it."""
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
        # Both are compared, always, so that nothing is told by the time it takes.
        scheme, _, token = authorization.partition(" ")
        operates = same_secret(token, settings.operate_token or secrets.token_hex(32))
        reads = same_secret(token, settings.read_token or secrets.token_hex(32))
        if scheme.lower() == "bearer" and (operates or reads):
            return Grant.OPERATE if operates else Grant.READ
        raise _Refused(401, "a token is needed: Authorization: Bearer ...", [(b"www-authenticate", b"Bearer")])

    async def _failed(self, scope: Scope, answer: _Answer, error: Exception) -> None:
        if answer.status is not None:
            log.debug("an answer to %s was not finished: %r", _client(scope), error)
            return  # the connection is closed without an end of the answer, so that nobody takes it for a whole one
        reference = secrets.token_hex(4)
        place = redacted(scope["path"])
        log.error("a request failed (%s): %s %s", reference, scope["method"], place, exc_info=error)
        await answer.refuse(500, f"internal error; the log of the driver has more under {reference}")

    def _note(self, scope: Scope, status: int | None) -> None:
        grant = scope.get("state", {}).get("grant")
        who = "nobody" if grant is None else grant.name.lower() if self._settings.needs_token else "anybody"
        path = redacted(scope["path"]).encode("unicode_escape").decode()[:200]
        audit.info("%s at %s: %s %s -> %s", who, _client(scope), scope["method"], path, status)


class _Answer:
    """What is sent: with the headers that all answers have, and the status to be seen afterwards."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *SAFE_HEADERS]}
        await asyncio.wait_for(self._send(message), SEND_SECONDS)

    async def refuse(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        body = error_body(message)
        told = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
        await self.send({"type": "http.response.start", "status": status, "headers": told})
        await self.send({"type": "http.response.body", "body": body})


def _client(scope: Scope) -> str:
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else "unknown"


def _is_of_other_page(method: str, headers: Headers) -> bool:
    """Whether a browser says that another page asks. One may lead here: what is shown then, it does not see."""
    followed = method in _READING and headers.get("sec-fetch-mode") == "navigate"
    is_page = followed and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_page


async def _body_of(scope: Scope, receive: Receive) -> bytes:
    """All of the body."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LONGEST_BODY:
        raise _Refused(413, f"a body may have {LONGEST_BODY} bytes")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Refused(400, "the body did not come to its end")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                more = message.get("more_body", False)
                if size > LONGEST_BODY:
                    raise _Refused(413, f"a body may have {LONGEST_BODY} bytes")
    except TimeoutError:
        raise _Refused(408, f"the body did not come within {BODY_SECONDS:.0f} s") from None
    if size and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Refused(415, "a body must be JSON: Content-Type: application/json")
    return b"".join(chunks)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> dict[str, Any]:
        nonlocal given
        if given:
            return dict(await receive())
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
