"""`docs/history.md` lists every setting of the history as it is."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_pages import tables_of
from tidemill.config import HistoryOptions
from tidemill.config.option import ConfigOption

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_every_setting_is_listed_with_its_default() -> None:
    known = [one for one in vars(HistoryOptions).values() if isinstance(one, ConfigOption)]
    rows = [
        [
            f"`{one.key}`",
            "" if one.default is None else f"`{one.format(one.default)}`",
            one.description.removeprefix("Tidemill only. "),
        ]
        for one in known
    ]
    assert tables_of(PAGE, "Settings")[0][2:] == rows
