"""Stored files name classes by where they were at first, and find them where they are now."""

from __future__ import annotations

import importlib
import io
import pickle

import pytest

from tidemill.common import moved
from tidemill.common.type_kinds.python import class_name, find_class
from tidemill.common.typeinfo import Types
from tidemill.connectors.kafka.records import KafkaRecord
from tidemill.datastream.program.error_policy import PoisonRecord
from tidemill.datastream.window import TimeWindow
from tidemill.state.codecs.class_names import TRUSTED

#: As files of earlier versions name them.
STORED = {
    "tidemill.datastream.window_types:TimeWindow": TimeWindow,
    "tidemill.datastream.error_policy:PoisonRecord": PoisonRecord,
    "tidemill.datastream.connectors.kafka.records:KafkaRecord": KafkaRecord,
}


@pytest.mark.parametrize("name", STORED)
def test_the_name_of_a_class_is_that_of_earlier_versions(name: str) -> None:
    assert class_name(STORED[name]) == name


@pytest.mark.parametrize("name", STORED)
def test_a_class_is_found_by_the_name_of_earlier_versions(name: str) -> None:
    assert find_class(name) is STORED[name]


def test_a_state_file_finds_it() -> None:
    assert TRUSTED.find("tidemill.datastream.error_policy:PoisonRecord", "dataclass") is PoisonRecord


@pytest.mark.parametrize("module", moved._FIRST)
def test_every_module_is_there(module: str) -> None:
    importlib.import_module(module)
    assert moved.current_module(moved.first_module(module)) == module


def pickled_before() -> bytes:
    """A type as a pickle of an earlier version holds it, among other things."""
    data = pickle.dumps([Types.LIST(Types.LONG()), TimeWindow(0, 5)], protocol=2)
    for current, first in (
        (b"tidemill.common.type_kinds.composite", b"tidemill.common.type_composite"),
        (b"tidemill.common.type_kinds.basic", b"tidemill.common.type_basic"),
        (b"tidemill.datastream.window.types", b"tidemill.datastream.window_types"),
    ):
        assert current in data
        data = data.replace(current, first)
    return data


def test_a_pickle_of_an_earlier_version_is_read() -> None:
    with pytest.raises(ImportError):
        pickle.loads(pickled_before())
    assert moved.unpickle(pickled_before()) == [Types.LIST(Types.LONG()), TimeWindow(0, 5)]


def test_what_is_nowhere_is_still_an_error() -> None:
    nowhere = b"ctidemill.nowhere\nThing\n."
    with pytest.raises(ImportError, match=r"tidemill\.nowhere"):
        moved.unpickle(nowhere)


def test_classes_of_programs_keep_their_names() -> None:
    assert moved.first_module("my.program") == moved.current_module("my.program") == "my.program"
    assert pickle.load(io.BytesIO(pickle.dumps(io.StringIO))) is moved.unpickle(pickle.dumps(io.StringIO))
