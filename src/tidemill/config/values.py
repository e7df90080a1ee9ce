"""The value types of configuration options: how values are parsed from text and formatted as text.

A :class:`ValueType` is stateless. ``parse`` accepts the value as a Python object or as text (from YAML or the command
line) and raises ``ValueError`` if it is not valid. ``format`` returns text that ``parse`` reads back as an equal value.
``expects`` describes valid values in error messages.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, TypeVar

import yaml

V_co = TypeVar("V_co", covariant=True)

_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?\d+)\s*([A-Za-zµ]*)\s*")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_CLASS_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")

_DURATION_UNITS: dict[timedelta, tuple[str, ...]] = {
    timedelta(days=1): ("d", "day", "days"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(minutes=1): ("min", "m", "minute", "minutes"),
    timedelta(seconds=1): ("s", "sec", "secs", "second", "seconds"),
    timedelta(milliseconds=1): ("ms", "milli", "millis", "millisecond", "milliseconds"),
    timedelta(microseconds=1): ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
}
_UNIT_OF_DURATION = {name: unit for unit, names in _DURATION_UNITS.items() for name in names}

_MEMORY_UNITS: dict[int, tuple[str, ...]] = {
    1 << 40: ("tb", "t", "tebibytes"),
    1 << 30: ("gb", "g", "gibibytes"),
    1 << 20: ("mb", "m", "mebibytes"),
    1 << 10: ("kb", "k", "kibibytes"),
    1: ("bytes", "b"),
}
_UNIT_OF_MEMORY = {name: unit for unit, names in _MEMORY_UNITS.items() for name in names}


class UnreadableValueError(ValueError):
    """The raw value is not valid for the type. :class:`ConfigOption` converts this into an error for the user."""


class ValueType(ABC, Generic[V_co]):
    """Parses and formats one type of configuration value."""

    expects: str

    @abstractmethod
    def parse(self, raw: object) -> V_co:
        """Parses ``raw``. Raises ``ValueError`` if it is not a valid value."""

    def format(self, value: Any) -> str:
        """Formats ``value`` as text that :meth:`parse` reads back."""
        return str(value)


class Bool(ValueType[bool]):
    """``true`` or ``false``, case-insensitive."""

    expects = "true or false"

    def parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        text = str(raw).strip().lower()
        if text not in ("true", "false"):
            raise UnreadableValueError(raw)
        return text == "true"

    def format(self, value: Any) -> str:
        return "true" if value else "false"


class Int(ValueType[int]):
    """An integer within ``[least, most]``, or one of the special values in ``also``."""

    def __init__(self, least: int | None = None, most: int | None = None, also: tuple[int, ...] = ()) -> None:
        self._least, self._most, self._also = least, most, also
        low = "" if least is None else f" of at least {least}"
        high = "" if most is None else f"{' and' if low else ' of'} at most {most}"
        self.expects = f"a whole number{low}{high}" + "".join(f", or {flag}" for flag in also)

    def parse(self, raw: object) -> int:
        if isinstance(raw, bool) or not _INTEGER.fullmatch(str(raw)):
            raise UnreadableValueError(raw)
        value = int(str(raw))
        if value in self._also:
            return value
        if (self._least is not None and value < self._least) or (self._most is not None and value > self._most):
            raise UnreadableValueError(raw)
        return value


class Float(ValueType[float]):
    """A finite number of at least ``least`` and at most ``most``."""

    def __init__(self, least: float = -math.inf, most: float = math.inf) -> None:
        self._least, self._most = least, most
        low = "" if least == -math.inf else f" of at least {least:g}"
        high = "" if most == math.inf else f"{' and' if low else ' of'} at most {most:g}"
        self.expects = f"a number{low}{high}"

    def parse(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise UnreadableValueError(raw)
        value = float(raw)
        if not math.isfinite(value) or not self._least <= value <= self._most:
            raise UnreadableValueError(raw)
        return value


class Text(ValueType[str]):
    """Any text. Numbers and booleans are converted to text."""

    expects = "text"

    def parse(self, raw: object) -> str:
        if isinstance(raw, bool):
            return Bool().format(raw)
        if not isinstance(raw, (str, int, float)):
            raise UnreadableValueError(raw)
        return str(raw)


class OneOf(ValueType[str]):
    """One of several names, ignoring case, ``-`` and ``_``. The value is the name as spelled in ``names``.

    ``aliases`` maps additional spellings to names. With ``or_class``, the dotted name of a class is also allowed. An
    ``Enum`` member stands for its name.
    """

    def __init__(self, *names: str, aliases: Mapping[str, str] | None = None, or_class: bool = False) -> None:
        self._or_class = or_class
        self._by_spelling = {self._plain(name): name for name in names}
        self._by_spelling.update({self._plain(alias): name for alias, name in (aliases or {}).items()})
        self.expects = "one of " + ", ".join(names) + (", or the dotted name of a class" if or_class else "")

    @staticmethod
    def _plain(text: str) -> str:
        return text.strip().lower().replace("-", "").replace("_", "")

    def parse(self, raw: object) -> str:
        text = raw.name if isinstance(raw, Enum) else str(raw)
        name = self._by_spelling.get(self._plain(text))
        if name is not None:
            return name
        if self._or_class and _CLASS_NAME.fullmatch(text):
            return text
        raise UnreadableValueError(raw)


class DurationValue(ValueType[timedelta]):
    """A duration: ``10 s``, ``500 ms``, ``1 min``. A number without a unit is in milliseconds.

    Objects with ``to_millis()`` or ``to_milliseconds()`` (:class:`tidemill.common.Duration`, ``Time``) are accepted
    too. The smallest unit is the microsecond.
    """

    def __init__(self, least: timedelta = timedelta(0)) -> None:
        self._least = least
        bound = f" of at least {self.format(least)}" if least else ""
        self.expects = f"a duration{bound} such as '10 s', '500 ms' or '1 min' (a plain number is milliseconds)"

    def parse(self, raw: object) -> timedelta:
        value = self._read(raw)
        if value < self._least:
            raise UnreadableValueError(raw)
        return value

    def _read(self, raw: object) -> timedelta:
        if isinstance(raw, timedelta):
            return raw
        for method in ("to_millis", "to_milliseconds"):
            if hasattr(raw, method):
                return timedelta(milliseconds=getattr(raw, method)())
        match = None if isinstance(raw, bool) else _NUMBER_AND_UNIT.fullmatch(str(raw))
        unit = _UNIT_OF_DURATION.get((match[2] or "ms").lower()) if match else None
        if match is None or unit is None:
            raise UnreadableValueError(raw)
        try:
            return int(match[1]) * unit
        except OverflowError:
            raise UnreadableValueError(raw) from None

    def format(self, value: Any) -> str:
        for unit, names in _DURATION_UNITS.items():
            if value and value % unit == timedelta(0):
                return f"{value // unit} {names[0]}"
        return "0 ms"


class MemorySizeValue(ValueType[int]):
    """A number of bytes: ``64 kb``, ``1 gb`` (powers of 1024). A number without a unit is in bytes."""

    expects = "a memory size such as '64 kb', '32 mb' or '1 gb' (a plain number is bytes)"

    def parse(self, raw: object) -> int:
        match = None if isinstance(raw, bool) else _NUMBER_AND_UNIT.fullmatch(str(raw))
        unit = _UNIT_OF_MEMORY.get((match[2] or "b").lower()) if match else None
        if match is None or unit is None or int(match[1]) < 0:
            raise UnreadableValueError(raw)
        return int(match[1]) * unit

    def format(self, value: Any) -> str:
        for unit, names in _MEMORY_UNITS.items():
            if value and value % unit == 0:
                return f"{value // unit} {names[0]}"
        return "0 bytes"


class ListValue(ValueType["list[str]"]):
    """A list of strings: a YAML list, or text in which the items are separated by ``;``."""

    expects = "a list such as [a, b] or 'a;b'"

    def parse(self, raw: object) -> list[str]:
        if isinstance(raw, str):
            raw = _flow(raw) if raw.lstrip().startswith("[") else [item.strip() for item in raw.split(";") if item]
        if not isinstance(raw, (list, tuple)):
            raise UnreadableValueError(raw)
        return [Text().parse(item) for item in raw]

    def format(self, value: Any) -> str:
        return json.dumps(list(value))


class MapValue(ValueType["dict[str, str]"]):
    """A map from string to string: a YAML map, or text of the form ``key:value,key:value``."""

    expects = "a map such as {a: 1, b: 2} or 'a:1,b:2'"

    def parse(self, raw: object) -> dict[str, str]:
        if isinstance(raw, str):
            raw = _flow(raw) if raw.lstrip().startswith("{") else self._pairs(raw)
        if not isinstance(raw, Mapping):
            raise UnreadableValueError(raw)
        return {Text().parse(key): Text().parse(value) for key, value in raw.items()}

    @staticmethod
    def _pairs(text: str) -> dict[str, str]:
        pairs = [item.split(":", 1) for item in text.split(",") if item.strip()]
        if any(len(pair) != 2 or not pair[0].strip() for pair in pairs):
            raise UnreadableValueError(text)
        return {key.strip(): value.strip() for key, value in pairs}

    def format(self, value: Any) -> str:
        return json.dumps(dict(value))


def _flow(text: str) -> object:
    """Parse a JSON or YAML collection, keeping scalars as text. JSON is tried first: YAML misreads surrogate pairs."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError:
        pass
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - BaseLoader builds str, list and dict only
    except yaml.YAMLError:
        raise UnreadableValueError(text) from None
