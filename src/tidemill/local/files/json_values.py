"""Converts parsed JSON to values of Spark's types, with the rules of Spark's JSON reader."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from tidemill.connectors.spark.schema_types import ArrayOf, MapOf, SparkType, StructOf
from tidemill.errors import GraphError
from tidemill.local.files.text_values import BITS, date_of, decimal_of, moment_of, wall_clock_of

__all__ = ["Convert", "NumberText", "RepeatedKeys", "converter", "object_of"]

#: Converts a value that is not null. Raises ``ValueError``, ``TypeError`` or ``ArithmeticError`` if it does not fit.
Convert = Callable[[Any], Any]

_INFINITE: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "+INF": float("inf"),
    "-Infinity": float("-inf"),
    "-INF": float("-inf"),
}


class NumberText(str):
    """A number as it stands in the file."""

    __slots__ = ()


class RepeatedKeys(dict[str, Any]):
    """An object in which a key occurs more than once; the last value counts, but all of them must fit."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs, for ``json``."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else RepeatedKeys(pairs)


def converter(kind: SparkType, zone: dt.tzinfo | None) -> Convert:
    """Return the conversion to a type. ``zone`` is the time zone of timestamps without one; None is this machine's."""
    if isinstance(kind, StructOf):
        return _struct(kind, zone)
    if isinstance(kind, ArrayOf):
        element = converter(kind.element, zone)
        return lambda value: [None if one is None else element(one) for one in _of(list, value)]
    if isinstance(kind, MapOf):
        if str(kind.key) != "STRING":
            raise GraphError(f"a map in a JSON file has STRING keys, not {kind.key}")
        inner = converter(kind.value, zone)
        return lambda value: _map(_of(dict, value), inner)
    if kind.name in BITS:
        return _integer(kind.name)
    if kind.name == "DECIMAL":
        return lambda value: _decimal(value, *kind.parameters)
    if kind.name == "TIMESTAMP":
        return lambda value: value * 1_000_000 if type(value) is int else moment_of(_text(value), zone)
    found: dict[str, Convert] = {
        "STRING": _string,
        "BINARY": lambda value: base64.b64decode(_text(value), validate=True),
        "BOOLEAN": lambda value: _of(bool, value),
        "FLOAT": _float,
        "DOUBLE": _float,
        "DATE": lambda value: date_of(_text(value)),
        "TIMESTAMP_NTZ": lambda value: wall_clock_of(_text(value)),
    }
    if kind.name not in found:
        raise GraphError(f"execution.target: local cannot read {kind} from JSON")
    return found[kind.name]


def _struct(kind: StructOf, zone: dt.tzinfo | None) -> Convert:
    converters = {field.name: converter(field.type, zone) for field in kind.fields}

    def convert(value: Any) -> dict[str, Any]:
        found = _of(dict, value)
        if isinstance(found, RepeatedKeys):
            for name, each in found.pairs:
                if name in converters and each is not None:
                    converters[name](each)
        return {name: None if (each := found.get(name)) is None else inner(each) for name, inner in converters.items()}

    return convert


def _map(value: Mapping[str, Any], inner: Convert) -> list[tuple[str, Any]]:
    if isinstance(value, RepeatedKeys):
        for _, each in value.pairs:
            if each is not None:
                inner(each)
    return [(key, None if each is None else inner(each)) for key, each in value.items()]


def _integer(name: str) -> Convert:
    low, high = -(1 << (BITS[name] - 1)), (1 << (BITS[name] - 1)) - 1
    wraps = name == "TINYINT"  # Spark's parser reads 128 to 255 as unsigned bytes

    def convert(value: Any) -> int:
        if type(value) is NumberText:
            value = int(value)
        if type(value) is int:
            if low <= value <= high:
                return value
            if wraps and high < value <= 255:
                return value - 256
        raise ValueError(value)

    return convert


def _float(value: Any) -> float:
    if type(value) is NumberText or type(value) is int:
        return float(value)
    if type(value) is str:
        return _INFINITE[value]
    raise ValueError(value)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if type(value) is bool or not isinstance(value, (str, int)):
        raise TypeError(value)
    return decimal_of(value.replace(",", "") if type(value) is str else str(value), precision, scale)


def _string(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    raise GraphError(
        "an object or array stands in a column that is declared as STRING. Spark would copy its text, which "
        "execution.target: local cannot: declare it as STRUCT, MAP or ARRAY"
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(value)
    return value


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value
