"""``tidemill query``: the value of a key in a queryable state of a running job."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

import typer

from tidemill.ops.cli.arguments import AsJson, Authority, Identity, RestUrl, RunningJob, Token
from tidemill.ops.cli.output import print_json, print_table
from tidemill.ops.drivers.client import JobAddress, job_address
from tidemill.ops.errors import NotThereError

__all__ = ["query"]


def query(
    job: RunningJob,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queryable name of a state.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help='A plain string, or JSON: 7, or ["a", 1] for a tuple.')],
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Query the value of a key in a queryable state of a running job.

    The result is from the last committed epoch, whose number is shown. 'tidemill state get' reads any state, also of a
    job that is not running.
    """
    address = job_address(job, rest, token, cacert, cert)
    answer = _answer(address, name, key)
    if as_json:
        print_json({"job": address.job_id, "name": name, "key": key, **answer})
    else:
        from tidemill.ops.state_rows import cell_text

        print_table(("epoch", "key", "value"), [(answer["epoch"], key, cell_text(answer["value"]))])


def _answer(address: JobAddress, name: str, key: str) -> dict[str, Any]:
    """Query the key as given. If it is JSON other than a string and does not exist, query its text as a string key."""

    def asked(given: str) -> dict[str, Any]:
        found: dict[str, Any] = address.ask("GET", f"/queryable-state/{_in_path(name)}?key={quote(given, safe='')}")
        return found

    try:
        return asked(key)
    except NotThereError:
        if not _is_other_than_text(key):
            raise
        with suppress(NotThereError):
            return asked(json.dumps(key))
        raise


def _is_other_than_text(key: str) -> bool:
    try:
        return not isinstance(json.loads(key), str)
    except ValueError:
        return False


def _in_path(name: str) -> str:
    """Return the path segment for a name: the name, or its hash if it contains characters that a path cannot have."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    from tidemill.ops.rest.jobs_shown import vertex_id

    return vertex_id(name)
