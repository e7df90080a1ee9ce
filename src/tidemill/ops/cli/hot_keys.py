"""``tidemill state hot``: the most frequent keys of a running job, as reported by its driver."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from tidemill.ops.cli.arguments import AsJson, Authority, Identity, RestUrl, RunningJob, Token
from tidemill.ops.cli.output import print_json, print_table
from tidemill.ops.drivers.client import JobAddress, job_address
from tidemill.ops.errors import NotThereError

__all__ = ["hot"]


def hot(
    job: RunningJob,
    operator: Annotated[
        str | None,
        typer.Argument(metavar="[OPERATOR]", help="The uid or name of an operator. Default: all with keyed input."),
    ] = None,
    rest: RestUrl = None,
    token: Token = None,
    authority: Authority = None,
    identity: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Show the most frequent keys.

    They are estimated from samples of approximately the last minute. A key with a large share keeps one subtask busy
    while others are idle.
    """
    address = job_address(job, rest, token, authority, identity)
    vertices = address.ask("GET")["vertices"]
    if operator is None:
        found = [{"uid": one["uid"], **keys} for one in vertices if (keys := _sampled(address, one)) is not None]
    else:
        vertex = next((one for one in vertices if _is(one, operator)), None)
        if vertex is None:
            raise NotThereError(f"job {address.job_id} has no vertex that starts with an operator {operator!r}")
        found = [{"uid": vertex["uid"], **_keys(address, vertex)}]
    if as_json:
        print_json({"job": address.job_id, "operators": found})
        return
    rows = [
        (one["uid"], key["text"], f"{key['share']:.1%}", key["records"], one["sampled"])
        for one in found
        for key in one["keys"]
    ]
    print_table(("uid", "key", "share", "records", "samples"), rows, empty="no key occurred more than once")


def _is(vertex: dict[str, Any], operator: str) -> bool:
    return operator in (vertex["uid"], vertex["id"], vertex["name"].partition(" -> ")[0])


def _keys(address: JobAddress, vertex: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = address.ask("GET", f"/vertices/{vertex['id']}/hot-keys")
    return answer


def _sampled(address: JobAddress, vertex: dict[str, Any]) -> dict[str, Any] | None:
    """Return the hot keys of a vertex, or None if its keys are not sampled."""
    with suppress(NotThereError):
        return _keys(address, vertex)
    return None
