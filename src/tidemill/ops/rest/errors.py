"""Errors of REST requests: each has its HTTP status, and is reported in Flink's format."""

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
    """Base class of the errors of requests."""

    status = 500


class BadRequestError(RestError):
    """The request is invalid."""

    status = 400


class ForbiddenError(RestError):
    """The client is not allowed to do this."""

    status = 403


class ResourceNotFoundError(RestError):
    """The resource does not exist, or no longer exists."""

    status = 404


class ConflictError(RestError):
    """The state of the job does not allow the operation."""

    status = 409


class UnavailableError(RestError):
    """The request cannot be served now; the same request may succeed later."""

    status = 503
