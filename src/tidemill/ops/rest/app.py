"""The application: all resources, at Flink's paths, under ``/`` and ``/v1``, and the web page at ``/``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidemill import __version__
from tidemill.errors import CheckpointError, SerializationError, StateError
from tidemill.ops.rest.errors import RestError
from tidemill.ops.rest.guard import RequestGuard, error_body
from tidemill.ops.rest.jobs_shown import ShownJobs
from tidemill.ops.rest.models.server import Errors
from tidemill.ops.rest.operations import Operations
from tidemill.ops.rest.program_runs import Programs
from tidemill.ops.rest.resources import (
    checkpoints,
    comparisons,
    epochs,
    exports,
    health,
    hot_keys,
    jobs,
    logs,
    queryable,
    state,
    steering,
    vertices,
)
from tidemill.ops.rest.resources import programs as program_paths
from tidemill.ops.rest.resources.epochs import EventStreams
from tidemill.ops.rest.settings import RestSettings
from tidemill.ops.web.pages import page_files, router_of

__all__ = ["create_app"]

_ROUTERS: Final = (
    jobs,
    health,
    vertices,
    hot_keys,
    checkpoints,
    steering,
    epochs,
    state,
    comparisons,
    exports,
    queryable,
    logs,
)
#: Errors that every path may return.
_ERRORS: Final = {
    400: "The request is invalid; the message names the field.",
    401: "A token is required.",
    403: "The token, the origin or the path is not allowed.",
    404: "The resource does not exist.",
    405: "The path does not support this method.",
    408: "The body did not arrive in time.",
    409: "The state of the job does not allow the operation.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    429: "Too many requests.",
    503: "Temporarily unavailable.",
}
_DESCRIPTION: Final = (
    "Monitor and control the jobs of one driver. Paths and names are Flink's where Flink has them. Uploading and "
    "running programs, at /jars, is disabled unless web.submit.enable is set."
)


def create_app(
    shown: ShownJobs,
    settings: RestSettings,
    programs: Programs | None = None,
) -> FastAPI:
    """Create an application that shows these jobs. It accepts programs if the settings enable this."""
    app = FastAPI(
        title="Tidemill",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # it would load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses={status: {"model": Errors, "description": text} for status, text in _ERRORS.items()},
    )
    app.state.jobs = shown
    app.state.operations = Operations()
    app.state.streams = EventStreams()
    app.state.health = health.HealthLook()
    app.state.programs = programs
    app.state.uploading = asyncio.Lock()
    for resource in (*_ROUTERS, *((program_paths,) if settings.submit else ())):
        app.include_router(resource.router)
        app.include_router(resource.router, prefix="/v1", include_in_schema=False)
    pages = page_files()
    app.include_router(router_of(pages))
    app.add_middleware(RequestGuard, settings=settings, open_paths=frozenset(pages))
    app.add_exception_handler(RestError, _answer)
    app.add_exception_handler(HTTPException, _http_answer)
    app.add_exception_handler(RequestValidationError, _field_answer)
    for kind in (CheckpointError, SerializationError, StateError):
        app.add_exception_handler(kind, _state_answer)
    app.openapi = _openapi(app, app.openapi)  # type: ignore[method-assign]
    return app


def _answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, RestError)  # noqa: S101 - it is registered only for this class
    return _response(error.status, str(error))


def _http_answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    headers = dict(error.headers or {})
    return Response(error_body(str(error.detail)), error.status_code, headers, media_type="application/json")


def _field_answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return _response(400, *(f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()))


def _state_answer(_: Request, error: Exception) -> Response:
    """Return the response for state that does not exist, no longer exists, or cannot be displayed."""
    return _response(404, str(error))


def _response(status: int, *messages: str) -> Response:
    return Response(error_body(*messages), status, media_type="application/json")


def _openapi(app: FastAPI, made: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Adjust the generated schema: invalid parameters have status 400 only, and a token may be sent."""

    def openapi() -> dict[str, Any]:
        schema = app.openapi_schema
        if schema is None:
            schema = made()
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            for unused in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(unused, None)
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{}, {"token": []}]
        return schema

    return openapi
