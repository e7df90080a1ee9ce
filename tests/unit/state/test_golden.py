"""Files that earlier versions wrote are read for ever. See `golden`; never change a file in `fixtures`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.keyed_state import States
from tests.unit.state.backends import make_backend, restore
from tests.unit.state.golden import FILES, FIXTURES, TYPED, UNTYPED, first_epoch, second_epoch
from tidemill.common import Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.state.files.state_file import decode_sections


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def test_all_fixtures_are_there() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(FILES)


@pytest.mark.parametrize(("name", "type_info", "value"), [(n, t, v) for n, (t, v) in TYPED.items()], ids=list(TYPED))
def test_typed_values(name: str, type_info: TypeInformation, value: Any) -> None:
    backend = restore(make_backend(key_type=Types.STRING()), [fixture("typed-1.tms")])
    state = backend.value_state(ValueStateDescriptor(name, type_info))
    backend.context.key = "k"
    assert state.value() == value
    assert repr(state.value()) == repr(value)


def test_typed_values_are_not_pickled() -> None:
    assert b"\x80\x05\x95" not in fixture("typed-1.tms")
    assert b"\x80\x05\x95" in fixture("untyped-1.tms")


def test_untyped_values_and_keys_of_all_kinds() -> None:
    backend = restore(make_backend(), [fixture("untyped-1.tms")])
    state = backend.value_state(ValueStateDescriptor("v"))
    for key, value in UNTYPED.items():
        backend.context.key = key
        assert state.value() == value
        assert type(state.value()) is type(value)
    assert backend.entries() == len(UNTYPED)


def test_all_kinds_of_state_and_all_operations() -> None:
    expected = States(make_backend())
    for epoch in (first_epoch, second_epoch):
        epoch(expected)
        expected.backend.fold()
        expected.backend.begin_epoch()
    found = States(restore(make_backend(), [fixture("kinds-1-1.tms"), fixture("kinds-2-1.tms")]))
    for key in ("a", "b"):
        for namespace in (None, (0, 10)):
            assert found.at(key, namespace).seen() == expected.at(key, namespace).seen()
    assert list(found.backend.event_timers.pending()) == [(10, "a", (0, 10))]
    assert sorted(found.backend.processing_timers.pending()) == [(20, "a", None), (20, "b", None), (30, "b", None)]


def test_sections_of_several_compressed_blocks() -> None:
    (section,) = decode_sections(fixture("blocks-1.tms"), "blocks-1.tms")
    columns = section.table.select(["key", "value"]).to_pydict()
    assert dict(zip(columns["key"], columns["value"], strict=True)) == {n: n * n for n in range(500)}
