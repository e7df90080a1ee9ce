"""An encoder that writes one JSON object per line; ``StreamFormat.json_lines_format`` reads such files."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from tidemill.common.serialization import Encoder
from tidemill.common.time import Instant
from tidemill.common.types import Row

__all__ = ["json_lines_encoder"]


def json_lines_encoder() -> Encoder[Any]:
    """Create an encoder that writes each record as a line of JSON, for ``FileSink.for_row_format``.

    Rows with field names, dicts and dataclasses become objects, and other values their JSON equivalents. Dates and
    times are written in ISO 8601 and bytes in base64, as Spark reads them.

    >>> import io
    >>> out = io.BytesIO()
    >>> json_lines_encoder().encode(Row(id=1, tags=["a"], price=Decimal("1.50")), out)
    >>> out.getvalue()
    b'{"id":1,"tags":["a"],"price":1.50}\\n'
    """
    return Encoder(_line)


def _line(record: Any) -> bytes:
    return _json(record).encode() + b"\n"


def _json(value: Any) -> str:
    """Convert a value to JSON; Python's own encoder cannot write a decimal as a number with all its digits."""
    if isinstance(value, Instant):
        seconds = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=value.seconds)
        value = seconds.replace(microsecond=value.nanos // 1000)
    if isinstance(value, Row):
        return _object(value.as_dict()) if value._fields else _array(value)
    if isinstance(value, Mapping):
        return _object(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, (list, tuple)):
        return _array(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (dt.date, dt.time)):
        value = value.isoformat()
    elif isinstance(value, (bytes, bytearray)):
        value = base64.b64encode(value).decode()
    return json.dumps(value, ensure_ascii=False)


def _object(fields: Mapping[Any, Any]) -> str:
    return f"{{{','.join(f'{json.dumps(str(name))}:{_json(field)}' for name, field in fields.items())}}}"


def _array(values: Iterable[Any]) -> str:
    return f"[{','.join([_json(value) for value in values])}]"
