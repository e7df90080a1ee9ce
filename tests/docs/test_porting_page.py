"""`docs/porting.md` tells of every public name of PyFlink's DataStream API whether it is here."""

from __future__ import annotations

from tests.docs.porting_reference import MISSING, NAMES, missing, other_arguments, reference, written


def test_what_is_missing_is_reported_and_nothing_else() -> None:
    assert missing() == set(MISSING)


def test_methods_take_the_arguments_of_pyflinks() -> None:
    assert list(other_arguments()) == []


def test_the_tables_are_those_of_this_version() -> None:
    assert written() == reference().strip(), "write them with: python -m tests.docs.porting_reference"


def test_the_names_are_those_of_the_whole_api() -> None:
    assert len(NAMES) > 40
    assert {"map", "key_by", "union", "process"} <= set(NAMES["datastream.data_stream"]["DataStream"])
    assert {"Context.timer_service", "process_element"} <= set(NAMES["datastream.functions"]["KeyedProcessFunction"])
