"""What a REST request can fail with: each error has its HTTP status, and is told as Flink tells it."""

from __future__ import annotations

from tidemill.errors import TidemillError

__all__ = [
    "BadRequestError",
    "ConflictError",
    "ForbiddenError",
    "ResourceNotFoundError",
    "RestError",
    "UnavailableError",
]


class RestError(TidemillError):
    """A request that is not answered as it was meant."""

    status = 500


class BadRequestError(RestError):
    """The request says something that cannot be."""

    status = 400


class ForbiddenError(RestError):
    """Who asks may not do this."""

    status = 403


class ResourceNotFoundError(RestError):
    """There is no such thing, or not any more."""

    status = 404


class ConflictError(RestError):
    """The job is in a state that does not allow it."""

    status = 409


class UnavailableError(RestError):
    """Not now; the same request may be answered later."""

    status = 503
