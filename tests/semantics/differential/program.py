"""What a differential case is: a program or a call that runs on PyFlink and on Tidemill, and how results are compared.

Modules of this folder are also run on PyFlink, with ``tidemill`` replaced by ``pyflink``: they import nothing else of
this project but each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidemill.common import Row


@dataclass(frozen=True)
class Program:
    """Builds a stream, the records of which are the result. With ``printed``, the lines are that it prints."""

    id: str
    build: Callable[[Any], Any]
    batch: bool = False
    ordered: bool = False
    printed: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A call that needs no job, such as the construction of a type. Its result or its error is the outcome."""

    id: str
    call: Callable[[], Any]


def shown(value: Any) -> str:
    """A text that is equal for equal values of equal types, on PyFlink and on Tidemill."""
    if isinstance(value, Row):
        fields: Any = getattr(value, "_fields", None)
        texts = list(map(shown, value))
        named = texts if not fields else [f"{name}={text}" for name, text in zip(fields, texts, strict=False)]
        kind = value.get_row_kind().name
        return f"Row({', '.join(named)})" if kind == "INSERT" else f"Row[{kind}]({', '.join(named)})"
    if type(value).__module__ == "numpy":
        return f"numpy.{type(value).__name__}({value})"
    if type(value) is tuple:
        return f"({', '.join(map(shown, value))},)"
    if type(value) is list:
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
    if hasattr(value, "to_epoch_milli"):
        return f"Instant({value.seconds}, {value.nanos})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def lines(records: Iterable[str], ordered: bool) -> list[str]:
    return list(records) if ordered else sorted(records)
