"""A sink that prints records on the driver, in Flink's format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np

from tidemill.common.type_kinds.record_text import record_text
from tidemill.common.typeinfo import (
    ListTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from tidemill.common.types import Row
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter

__all__ = ["PrintSink"]


class PrintSink(Sink):
    """Prints each record of a committed epoch once, in the order of epochs and subtasks.

    Lines are prefixed as in Flink: ``id:subtask> value`` with an identifier and several subtasks, ``id> value`` with an
    identifier and one subtask, ``subtask> value`` without an identifier and with several subtasks, and otherwise no
    prefix. Subtasks are numbered from 1. An epoch is printed twice only if the driver crashes after printing it and
    before recording that.
    """

    guarantee = "at-least-once"
    for_reading = True

    def __init__(self, sink_identifier: str | None = None, to_text: Callable[[Any], str] = str) -> None:
        self.sink_identifier = sink_identifier
        self.to_text = to_text
        self._printed: dict[int, int] = {}

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that formats lines."""
        return _PrintWriter(line_prefix(self.sink_identifier, subtask, parallelism), self.to_text)

    def create_committer(self) -> Committer:
        """Create a committer that prints the lines. All committers of the sink share the record of printed epochs."""
        return _PrintCommitter(self._printed)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_printed": {}}


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return the prefix of a printed line.

    >>> line_prefix("out", 0, 2), line_prefix("out", 0, 1), line_prefix(None, 1, 2), line_prefix(None, 0, 1)
    ('out:1> ', 'out> ', '2> ', '')
    """
    parts = [] if not identifier else [identifier]
    if parallelism > 1:
        parts.append(str(subtask + 1))
    return f"{':'.join(parts)}> " if parts else ""


def text_of(type_info: TypeInformation | None) -> Callable[[Any], str]:
    """Return the function that converts the records of a stream to text, as PyFlink prints them.

    PyFlink has its own format for rows. Records without a declared type are printed as in Python, all others as in
    Java.

    >>> from tidemill.common import Types
    >>> text_of(Types.TUPLE([Types.STRING(), Types.INT()]))(("a", 1)), text_of(None)(("a", 1))
    ('(a,1)', "('a', 1)")
    >>> text_of(Types.FLOAT())(0.10000000149011612)
    '0.1'
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str
    if isinstance(type_info, RowTypeInfo):
        return changelog_text
    shorten = _shortened(type_info)
    return record_text if shorten is None else lambda value: record_text(shorten(value))


def _shortened(type_info: TypeInformation) -> Callable[[Any], Any] | None:
    """Replaces numbers of single precision by those with as few digits as Java prints; None if there are none."""
    if type_info == Types.FLOAT():
        return lambda value: None if value is None else float(str(np.float32(value)))
    if isinstance(type_info, ListTypeInfo):
        element = _shortened(type_info.elem_type)
        return None if element is None else lambda value: [element(one) for one in value]
    if not isinstance(type_info, TupleTypeInfo):
        return None
    fields = [_shortened(field) for field in type_info.get_field_types()]
    if not any(fields):
        return None
    return lambda value: tuple([one if field is None else field(one) for field, one in zip(fields, value, strict=True)])


def changelog_text(value: Any) -> str:
    """Format a row with its kind, as PyFlink prints streams of a declared row type.

    >>> changelog_text(Row("a", 1))
    '+I[a,1]'
    """
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{','.join([str(field) for field in value])}]"
    return str(value)


class _PrintWriter(SinkWriter):
    def __init__(self, prefix: str, to_text: Callable[[Any], str]) -> None:
        self._prefix = prefix
        self._to_text = to_text
        self._lines: list[str] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        prefix, to_text = self._prefix, self._to_text
        self._lines += [prefix + to_text(value) for value in values]

    def prepare_commit(self) -> Sequence[bytes]:
        lines, self._lines = self._lines, []
        return [("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")] if lines else ()

    def close(self) -> None:
        self._lines = []


class _PrintCommitter(Committer):
    def __init__(self, printed: dict[int, int]) -> None:
        self._printed = printed  # subtask -> last epoch printed

    def commit(self, committed: Sequence[Committed]) -> None:
        out = sys.stdout
        for part in sorted(committed, key=lambda one: (one.epoch, one.subtask)):
            if part.epoch <= self._printed.get(part.subtask, -1):
                continue
            for lines in part.committables:
                _write(out, lines.decode("utf-8", "surrogatepass"))
            self._printed[part.subtask] = part.epoch
        out.flush()


def _write(out: TextIO, text: str) -> None:
    """Print text. Characters that the terminal cannot encode are escaped, because a committed epoch must not fail."""
    try:
        out.write(text)
    except UnicodeEncodeError:
        encoding = out.encoding or "ascii"
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
