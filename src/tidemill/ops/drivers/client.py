"""A client of the REST servers of drivers: those on this machine by their records, others by address."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tidemill.errors import TidemillError
from tidemill.ops.access import read_token
from tidemill.ops.drivers.owner_proof import PROOF_HEADER, proven
from tidemill.ops.drivers.records import RestAddress, driver_of
from tidemill.ops.errors import NotThereError

__all__ = ["DriverGoneError", "JobAddress", "RefusedError", "job_address", "token_of"]

_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1


class RefusedError(TidemillError):
    """The driver rejected a request; the message is from the driver."""


class DriverGoneError(TidemillError):
    """There is no response from the address of a driver."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Do not follow redirects; the response is then an error."""


@dataclass(frozen=True)
class JobAddress:
    """A job, and the REST server of its driver."""

    job_id: str
    rest: RestAddress
    #: Whether the driver is one of this user on this machine.
    is_here: bool = False

    def ask(
        self,
        method: str,
        path: str = "",
        body: dict[str, Any] | None = None,
        seconds: float = _SECONDS,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """Send a request about the job, with ``more`` headers, and return the response.

        Raises :class:`NotThereError`, :class:`RefusedError` or :class:`DriverGoneError`.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {**({"Content-Type": "application/json"} if data is not None else {}), **more}
        if (token := token_of(self.rest)) is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{self.rest.url.rstrip('/')}/jobs/{self.job_id}{path}"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - checked in address_of
        # No proxies and no redirects, because the token must be sent only to the driver.
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
                raise RefusedError(f"{self.rest.url} requires a certificate: specify it with --cert FILE") from error
            raise DriverGoneError(
                f"the driver of job {self.job_id} does not respond at {self.rest.url}: {error}"
            ) from error

    def _trust(self) -> ssl.SSLContext:
        """Return the TLS context: it trusts the default authorities and the certificate of a driver on this machine.

        It also has the client certificate, if there is one.
        """
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
        """Start an operation, wait until it has completed, and return its result. Raises like :meth:`ask`.

        A driver of this user on this machine accepts any directory for savepoints.
        """
        target = (body or {}).get("target-directory")
        with ExitStack() as proof:
            more = {PROOF_HEADER: proof.enter_context(proven(target))} if self.is_here and target is not None else {}
            trigger = self.ask(method, path, body, more=more)["request-id"]
        while True:
            answer = self.ask("GET", f"/{kind}/{trigger}")
            if answer["status"]["id"] == "COMPLETED":
                break
            time.sleep(_POLL_SECONDS)
        result = answer.get("operation") or {}
        if "failure-cause" in result:
            raise RefusedError(result["failure-cause"]["stack-trace"])
        return result


def job_address(
    job: str, url: str | None, token: str | None, authority: str | None = None, identity: str | None = None
) -> JobAddress:
    """Return the address for requests about a job: ``url``, or the driver on this machine that runs the job.

    ``authority`` is the certificate authority to trust, ``identity`` the client certificate.

    Raises :class:`NotThereError` if there is no driver with a REST server.
    """
    if url is not None:
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        return JobAddress(job, RestAddress(url, token, authority, identity))
    driver, known = driver_of(job)
    job_id = known.id
    if not driver.alive:
        raise NotThereError(f"job {job_id} is not running: its driver, process {driver.pid}, has ended")
    if driver.rest is None:
        raise NotThereError(
            f"the driver of job {job_id}, process {driver.pid}, has no REST server: it was started with rest.enabled: "
            "false, or found no free port"
        )
    return JobAddress(job_id, replace(driver.rest, identity=identity), is_here=True)


def token_of(rest: RestAddress) -> str | None:
    """Return the token that a server requires. Raises :class:`NotThereError` if the token file does not exist."""
    where = rest.token
    if where is None:
        return None
    path = Path(where.removeprefix("file:"))
    if where.startswith("file:") and not path.exists():  # only the server creates the file
        raise NotThereError(f"there is no token in {path}")
    return read_token(where, "--token")


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return "; ".join(map(str, json.load(error)["errors"]))
    except (OSError, ValueError, KeyError, TypeError):
        return f"the driver responded with {error.code} {error.reason}"
