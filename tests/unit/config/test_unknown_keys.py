"""Keys that nobody knows: a warning where the environment is made, or an error."""

from __future__ import annotations

import warnings

import pytest

from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import ConfigurationError, ConfigurationWarning

STRICT = {"pipeline.strict-configuration": "true"}


def test_known_keys_are_accepted_quietly() -> None:
    known = {"parallelism.default": "2", "user.x": "1", "web.timeout": "1", "taskmanager.numberOfTaskSlots": "4"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({**known, **STRICT}))
    assert env.get_configuration().get_string("web.timeout", "") == "1"


def test_an_unknown_key_is_a_warning_at_the_line_of_the_program() -> None:
    configuration = Configuration.from_dict({"execution.checkpointing.intervall": "1 s", "my.limit": "5"})
    with pytest.warns(ConfigurationWarning) as caught:
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert "'execution.checkpointing.intervall'" in str(caught[0].message)
    assert "Did you mean 'execution.checkpointing.interval'?" in str(caught[0].message)
    assert "'my.limit'" in str(caught[1].message)
    assert {one.filename for one in caught} == {__file__}
    assert env.get_configuration().get_integer("my.limit", 0) == 5, "the program can read it"


def test_an_unknown_key_is_an_error_if_the_configuration_is_strict() -> None:
    configuration = Configuration.from_dict({"state.backend.typ": "rocksdb", **STRICT})
    with pytest.raises(ConfigurationError, match=r"Did you mean 'state\.backend\.type'\?"):
        StreamExecutionEnvironment.get_execution_environment(configuration)


def test_keys_added_later_are_checked_too() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.warns(ConfigurationWarning, match=r"'execution\.runtime-mod'") as caught:
        env.configure(Configuration.from_dict({"execution.runtime-mod": "BATCH"}))
    assert [one.filename for one in caught] == [__file__]
    env.configure(Configuration.from_dict(STRICT))
    with pytest.raises(ConfigurationError, match=r"'execution\.runtime-mod'"):
        env.configure(Configuration.from_dict({"execution.runtime-mod": "BATCH"}))
