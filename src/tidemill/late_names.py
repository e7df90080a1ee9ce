"""Names of PyFlink's ``common`` that are defined in packages above this one, which it must not import.

They are imported on first use. A type checker finds them where they are defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidemill.lazy_names import names_elsewhere

__all__ = ["SCHEMAS", "STATES", "late"]

#: The schemas for rows, by name: PyFlink also exports those from ``common.serialization``.
SCHEMAS: Final[Mapping[str, str]] = {
    "AvroRowDeserializationSchema": "tidemill.datastream.formats.avro",
    "AvroRowSerializationSchema": "tidemill.datastream.formats.avro",
    "CsvRowDeserializationSchema": "tidemill.datastream.formats.csv",
    "CsvRowSerializationSchema": "tidemill.datastream.formats.csv",
    "JsonRowDeserializationSchema": "tidemill.datastream.formats.json",
    "JsonRowSerializationSchema": "tidemill.datastream.formats.json",
}
#: The interfaces of state, which were in ``common.state`` in PyFlink 1.12.
STATES: Final[Mapping[str, str]] = dict.fromkeys(
    ("ListState", "MapState", "State", "ValueState"), "tidemill.datastream.functions.state"
)


def late(module: str, names: Mapping[str, str], name: str) -> Any:
    """The object with this name, for the ``__getattr__`` of a module. Raises ``AttributeError`` if it has none."""
    return names_elsewhere(module, names)(name)
