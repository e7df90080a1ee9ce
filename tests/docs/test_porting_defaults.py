"""Options have Flink's defaults, or docs/porting.md says why not."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tidemill import config
from tidemill.config.option import ConfigOption
from tidemill.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
FLINK: dict[str, str | None] = json.loads((ROOT / "tests/fixtures/pyflink/option_defaults.json").read_text())
OPTIONS: dict[str, ConfigOption[Any]] = {
    option.key: option
    for _, group in inspect.getmembers(config, inspect.isclass)
    for option in vars(group).values()
    if isinstance(option, ConfigOption)
}
DEFAULTS = (ROOT / "docs/porting.md").read_text().partition("\n### Defaults\n")[2].partition("\n### ")[0]


def defaults_differ(option: ConfigOption[Any], flink: str | None) -> bool:
    if option.default is None or flink is None:
        return option.default is not None or flink is not None
    try:
        return bool(option.parse(flink) != option.default)
    except ConfigurationError:
        return True


@pytest.mark.parametrize("key", sorted(FLINK))
def test_a_default_is_flinks_or_has_a_reason(key: str) -> None:
    differs = defaults_differ(OPTIONS[key], FLINK[key])
    assert f"`{key}`" in DEFAULTS or not differs, (OPTIONS[key].default, FLINK[key])


def test_all_options_of_flink_are_compared() -> None:
    assert len(FLINK) > 80
    assert FLINK.keys() <= OPTIONS.keys()


def test_a_difference_would_be_found() -> None:
    assert defaults_differ(OPTIONS["execution.checkpointing.num-retained"], "2")
    assert not defaults_differ(OPTIONS["execution.checkpointing.timeout"], "10 min")
