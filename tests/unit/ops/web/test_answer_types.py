"""The types that the page's scripts declare for answers are those of the server's models.

The type checker of the scripts takes ``core/answers.js`` for granted: a field that the server does not have, or that
may be missing or null there, would be read as if it were present.
"""

from __future__ import annotations

import json
import re
import types
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any, Union, cast, get_args, get_origin

from typing_extensions import NotRequired, get_type_hints, is_typeddict

from tidemill.common.job_status import JobStatus
from tidemill.ops.rest import models
from tidemill.ops.rest.jobs_shown import ShownJob
from tidemill.ops.rest.resources.epochs import _message
from tidemill.ops.web.pages import page_files

DECLARED = {
    name: dict(re.findall(r'^ \*   "?([\w-]+\??"?\??): (.+),$', body, re.MULTILINE))
    for body, name in re.findall(
        r"@typedef \{\{\n(.*?) \* \}\} (\w+)$",
        page_files()["/web/core/answers.js"].content.decode(),
        re.MULTILINE | re.DOTALL,
    )
}
MODELS = {
    name: model
    for module in iter_modules(models.__path__, f"{models.__name__}.")
    for name, model in vars(import_module(module.name)).items()
    if is_typeddict(model)
}
#: Events are written field by field, so they have no model.
WITHOUT_MODEL = {"JobEvent"}


def javascript(hint: Any) -> str:
    """A type as the scripts write it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(map(javascript, arguments))
    if origin is list:
        return f"{javascript(arguments[0])}[]"
    if origin is dict:
        return f"Record<{javascript(arguments[0])}, {javascript(arguments[1])}>"
    names = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}
    return names[hint] if hint in names else str(hint.__name__)


def test_all_declared_types_are_known() -> None:
    assert len(DECLARED) > 40
    assert {*DECLARED} - WITHOUT_MODEL <= {*MODELS}


def test_declared_fields_are_those_of_the_models() -> None:
    for name in sorted({*DECLARED} - WITHOUT_MODEL):
        hints = get_type_hints(MODELS[name], include_extras=True)
        assert DECLARED[name], name
        for written, declared in DECLARED[name].items():
            field = written.strip('?"')
            assert field in hints, f"the server's {name} has no {field}"
            hint: Any = hints[field]
            may_be_missing = get_origin(hint) is NotRequired
            assert written.endswith("?") == may_be_missing, f"{name}.{field} may be missing: {may_be_missing}"
            assert declared == javascript(get_args(hint)[0] if may_be_missing else hint), f"{name}.{field}"


def test_events_have_the_declared_fields() -> None:
    client = SimpleNamespace(epochs=[], num_restarts=0)
    job = SimpleNamespace(id="tide", status=JobStatus.RUNNING, client=client, now=lambda: SimpleNamespace(text="[]"))
    message = json.loads(_message(cast("ShownJob", job), None, (JobStatus.RUNNING, None)))
    assert {*DECLARED["JobEvent"]} <= {*message}
