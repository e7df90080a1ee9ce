"""Error policies: how an operator handles a record at which a user function raises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidemill.common.typeinfo import Types
from tidemill.datastream.output_tag import OutputTag

__all__ = ["DEAD_LETTERS", "ErrorPolicy", "OnError", "PoisonRecord"]


class OnError(Enum):
    """The kinds of error policies."""

    FAIL = "fail"
    SKIP = "skip"
    SIDE_OUTPUT = "side output"
    DEAD_LETTER = "dead letter"


#: The side output that carries records to the dead-letter sink.
DEAD_LETTERS = "tidemill-dead-letters"


@dataclass(frozen=True)
class ErrorPolicy:
    """How an operator handles a record at which its function raises. See :meth:`DataStream.on_error`.

    >>> ErrorPolicy.side_output(OutputTag("bad"))
    ErrorPolicy.side_output(OutputTag('bad'))
    """

    kind: OnError
    tag: OutputTag | None = None

    @staticmethod
    def fail() -> ErrorPolicy:
        """The job fails and its restart strategy applies. This is the default."""
        return ErrorPolicy(OnError.FAIL)

    @staticmethod
    def skip() -> ErrorPolicy:
        """The record is dropped and counted (``numPoisonRecords``). Only the first one is logged."""
        return ErrorPolicy(OnError.SKIP)

    @staticmethod
    def side_output(output_tag: OutputTag) -> ErrorPolicy:
        """The record is emitted to a side output as a :class:`PoisonRecord`."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"side_output() needs an OutputTag, not {type(output_tag).__name__}")
        if output_tag.type_info != Types.PICKLED_BYTE_ARRAY():
            raise TypeError(
                f"side output {output_tag.tag_id!r} has the type {output_tag.type_info}, but it receives PoisonRecord "
                "objects: create the OutputTag without a type"
            )
        return ErrorPolicy(OnError.SIDE_OUTPUT, output_tag)

    @staticmethod
    def dead_letter() -> ErrorPolicy:
        """The record is sent to the dead-letter sink of the program as a :class:`PoisonRecord`.

        All operators share one sink: the one set with :meth:`StreamExecutionEnvironment.set_dead_letter_sink`, or files
        of JSON lines in the directory ``execution.dead-letter.dir``.
        """
        return ErrorPolicy(OnError.DEAD_LETTER, OutputTag(DEAD_LETTERS))

    def __str__(self) -> str:
        named = "" if self.tag is None or self.kind is OnError.DEAD_LETTER else f" {self.tag.tag_id!r}"
        return self.kind.value + named

    def __repr__(self) -> str:
        return f"ErrorPolicy.{self.kind.name.lower()}({self.tag if self.kind is OnError.SIDE_OUTPUT else ''})"


@dataclass(frozen=True)
class PoisonRecord:
    """A record at which a user function raised, with the exception.

    ``value`` is the record. ``timer`` is true if the function raised for a timer instead of a record: ``value`` is then
    None or, for a window, the list of elements passed to its function. ``timestamp`` is that of the record or timer.
    ``subtask`` starts at 0.

    >>> poison = PoisonRecord("x", "ValueError", "no number", "Traceback ...", "parse", "parse-1", 0, timestamp=5)
    >>> print(poison.to_json())  # doctest: +NORMALIZE_WHITESPACE
    {"value": "x", "exception": "ValueError", "message": "no number", "traceback": "Traceback ...",
     "operator": "parse", "uid": "parse-1", "subtask": 0, "key": null, "timestamp": 5, "timer": false}
    """

    value: Any
    exception: str
    message: str
    traceback: str
    operator: str
    uid: str
    subtask: int
    key: Any = None
    timestamp: int | None = None
    timer: bool = False

    def to_json(self) -> str:
        """The record as one line of JSON. Values that JSON cannot represent are replaced by their ``repr``."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({**fields, "value": _plain(self.value), "key": _plain(self.key)}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False, default=repr))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
