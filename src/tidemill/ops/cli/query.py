"""``tidemill query``: what a running job has for a key, in a state that its program made queryable."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

import typer

from tidemill.ops.cli.arguments import AsJson, Authority, Identity, RestUrl, RunningJob, Token
from tidemill.ops.cli.output import print_json, print_table
from tidemill.ops.drivers.client import JobAddress, address_of
from tidemill.ops.errors import NotThereError

__all__ = ["query"]


def query(
    job: RunningJob,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name under which a state is queryable.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help='Text as it is, else JSON: 7, or ["a", 1] for a tuple.')],
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running job for what a queryable state has for a key.

    The answer is of the last committed epoch, and says of which. 'tidemill state get' reads any state, also of a job
    that does not run.
    """
    address = address_of(job, rest, token, cacert, cert)
    answer = _answer(address, name, key)
    if as_json:
        print_json({"job": address.job_id, "name": name, "key": key, **answer})
    else:
        from tidemill.ops.state_rows import shown

        print_table(("epoch", "key", "value"), [(answer["epoch"], key, shown(answer["value"]))])


def _answer(address: JobAddress, name: str, key: str) -> dict[str, Any]:
    """What is there for a key as it was given, or else for that text."""

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
    """What stands for a name in a path: itself, or for those that cannot, their hash."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    from tidemill.ops.rest.jobs_shown import vertex_id

    return vertex_id(name)
