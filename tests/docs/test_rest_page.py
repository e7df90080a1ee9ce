"""`docs/rest.md` lists every path of the REST server and every setting, as they are."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_pages import tables_of, text_of
from tidemill.config import RestOptions
from tidemill.config.option import ConfigOption
from tidemill.ops.rest import guard, program_store, server
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.jobs_shown import ShownJobs
from tidemill.ops.rest.resources import epochs, exports
from tidemill.ops.rest.settings import RestSettings

PAGE = Path(__file__).parents[2] / "docs" / "rest.md"
#: Settings of clients.
NOT_OURS = {RestOptions.CONNECTION_TIMEOUT.key}


def path_rows() -> list[list[str]]:
    """The table of paths."""
    rows = []
    every = RestSettings(operate_token="x", submit=True)  # noqa: S106
    for path, methods in create_app(ShownJobs(1), every).openapi()["paths"].items():
        for method, described in methods.items():
            operate = method != "get" or "state" in path or "jars" in path or path.endswith(("/logs", "/hot-keys"))
            rows.append([f"`{method.upper()} {path}`", "operate" if operate else "read", described["summary"]])
    return rows


def setting_rows() -> list[list[str]]:
    """The table of settings."""
    known = [one for one in vars(RestOptions).values() if isinstance(one, ConfigOption) and one.key not in NOT_OURS]
    return [[f"`{one.key}`", _default(one), one.description.removeprefix("Tidemill only. ")] for one in known]


def _default(option: ConfigOption[object]) -> str:
    return "" if option.default is None else f"`{option.format(option.default)}`"


def test_every_path_is_listed_as_it_is() -> None:
    assert tables_of(PAGE, "Paths")[0][2:] == path_rows()


def test_every_setting_is_listed_with_its_default() -> None:
    assert tables_of(PAGE, "Settings")[0][2:] == setting_rows()


def test_limits_are_as_documented() -> None:
    text = " ".join(text_of(PAGE).split())
    assert f"{server.MOST_CONNECTIONS} connections, {epochs._MOST_STREAMS} streams" in text
    assert f"{guard.LONGEST_BODY >> 10} kB of body" in text
    assert f"closed after {server.IDLE_SECONDS:.0f} s" in text
    assert f"takes nothing for {guard.SEND_SECONDS:.0f} s" in text
    assert guard.CSRF_HEADER in text
    assert f"{guard.LONGEST_UPLOAD >> 20} MB within {guard.UPLOAD_SECONDS:.0f} s" in text
    assert f"{program_store.MOST_FILES} files and {program_store.MOST_BYTES >> 20} MB unpacked" in text
    assert f"{program_store.MOST_PROGRAMS} programs" in text
    assert f"{exports.MOST_BYTES >> 20} MB in storage, or {exports.MOST_SECONDS:.0f} s" in text
