"""Asking a driver's REST server: the drivers of this machine by their records, others by address."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tidemill.errors import TidemillError
from tidemill.ops.access import read_token
from tidemill.ops.drivers.records import RestAddress, driver_of
from tidemill.ops.errors import NotThereError

__all__ = ["DriverGoneError", "JobAddress", "RefusedError", "address_of", "token_of"]

_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1


class RefusedError(TidemillError):
    """The driver does not do what it is asked; the message is its own."""


class DriverGoneError(TidemillError):
    """Nobody answers at a driver's address (any more)."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Nowhere: what is then left is the answer itself, an error."""


@dataclass(frozen=True)
class JobAddress:
    """A job, and the server that can be asked about it."""

    job_id: str
    rest: RestAddress

    def ask(self, method: str, path: str = "", body: dict[str, Any] | None = None, seconds: float = _SECONDS) -> Any:
        """What the server answers to a request about the job.

        Raises :class:`NotThereError`, :class:`RefusedError` or :class:`DriverGoneError`.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if (token := token_of(self.rest)) is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{self.rest.url.rstrip('/')}/jobs/{self.job_id}{path}"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - checked in address_of
        # Never through a proxy, nor to where somebody else points: the token is for the driver alone.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _NoRedirects, urllib.request.HTTPSHandler(context=self._trust())
        )
        try:
            with opener.open(request, timeout=seconds) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            message = _message(error)
            raise (NotThereError if error.code == 404 else RefusedError)(message) from error
        except (OSError, ValueError) as error:
            if "CERTIFICATE_REQUIRED" in str(error):
                raise RefusedError(f"{self.rest.url} wants a certificate: show it with --cert FILE") from error
            raise DriverGoneError(
                f"the driver of job {self.job_id} does not answer at {self.rest.url}: {error}"
            ) from error

    def _trust(self) -> ssl.SSLContext:
        """Whom to believe: the usual authorities, and the very certificate that a driver of this machine has; and what
        to be believed by."""
        context = ssl.create_default_context()
        certificate, identity = self.rest.certificate, self.rest.identity
        try:
            if certificate is not None:
                context.load_verify_locations(certificate)
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            if identity is not None:
                context.load_cert_chain(identity)
        except OSError as error:
            files = " or ".join(filter(None, [certificate, identity]))
            raise NotThereError(f"{files} cannot be used: {error}") from error
        return context

    def operate(self, kind: str, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Begin an operation, and wait for its end: what it results in. Raises as :meth:`ask` does."""
        trigger = self.ask(method, path, body)["request-id"]
        while True:
            answer = self.ask("GET", f"/{kind}/{trigger}")
            if answer["status"]["id"] == "COMPLETED":
                break
            time.sleep(_POLL_SECONDS)
        result = answer.get("operation") or {}
        if "failure-cause" in result:
            raise RefusedError(result["failure-cause"]["stack-trace"])
        return result


def address_of(
    job: str, url: str | None, token: str | None, authority: str | None = None, identity: str | None = None
) -> JobAddress:
    """Where to ask about a job: at ``url``, or at the driver on this machine that runs it.

    ``authority`` is whose certificate to believe, ``identity`` the certificate to show.

    Raises :class:`NotThereError` if there is none that can be asked.
    """
    if url is not None:
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        return JobAddress(job, RestAddress(url, token, authority, identity))
    driver, known = driver_of(job)
    job_id = known.id
    if not driver.alive:
        raise NotThereError(f"job {job_id} does not run: its driver, process {driver.pid}, has ended")
    if driver.rest is None:
        raise NotThereError(
            f"the driver of job {job_id}, process {driver.pid}, cannot be asked: it was started with rest.enabled: "
            "false, or found no free port"
        )
    return JobAddress(job_id, replace(driver.rest, identity=identity))


def token_of(rest: RestAddress) -> str | None:
    """The token that a server wants. Raises :class:`NotThereError` if its file is not there."""
    where = rest.token
    if where is None:
        return None
    path = Path(where.removeprefix("file:"))
    if where.startswith("file:") and not path.exists():  # the server makes one where there is none: we do not
        raise NotThereError(f"there is no token in {path}")
    return read_token(where, "--token")


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return "; ".join(map(str, json.load(error)["errors"]))
    except (OSError, ValueError, KeyError, TypeError):
        return f"the driver answered {error.code} {error.reason}"
