"""Converts records to actions of the bulk API: lines of JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from tidemill.common.time import Instant
from tidemill.common.types import Row
from tidemill.errors import TypeMismatchError
from tidemill.python_versions import Self

__all__ = ["Action", "ElasticsearchEmitter", "OpensearchEmitter"]

#: The maximum length of a record in messages.
_SHOWN: Final = 300
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class Action(NamedTuple):
    """One action of a bulk request: its lines, and the document that it writes. ``key`` is None for a generated id."""

    data: bytes
    key: tuple[str, str] | None
    record: Any


class ElasticsearchEmitter:
    """Converts records with named fields to documents: dictionaries, rows, dataclasses or named tuples.

    Without ``key_field`` a document gets a generated id, so that a record that is written twice is two documents. With
    it, the value of that field is the id, and the record updates the document or creates it. Fields of a document that
    the record does not have remain, as in Flink.

    >>> emitter = ElasticsearchEmitter.static_index("users", key_field="id")
    >>> print(emitter.action({"id": 7, "name": "Ada"}).data.decode(), end="")
    {"update":{"_index":"users","_id":"7"}}
    {"doc":{"id":7,"name":"Ada"},"doc_as_upsert":true}
    """

    def __init__(
        self, index: str, key_field: str | None = None, doc_type: str | None = None, *, dynamic: bool = False
    ) -> None:
        """Use :meth:`static_index` or :meth:`dynamic_index` instead."""
        for what, text in (("index", index), ("key_field", key_field), ("doc_type", doc_type)):
            if text == "":
                raise ValueError(f"{what} must not be empty")
        self._index = index
        self._dynamic = dynamic
        self._doc_type = doc_type
        self.key_field = key_field

    @classmethod
    def static_index(cls, index: str, key_field: str | None = None, doc_type: str | None = None) -> Self:
        """Write all records to one index."""
        return cls(index, key_field, doc_type)

    @classmethod
    def dynamic_index(cls, index_field: str, key_field: str | None = None, doc_type: str | None = None) -> Self:
        """Write each record to the index that one of its fields names."""
        return cls(index_field, key_field, doc_type, dynamic=True)

    def with_doc_type(self, doc_type: str) -> Self:
        """Return an emitter with a type of documents, if this one has none: Elasticsearch 6 requires one."""
        if self._doc_type is not None:
            return self
        return type(self)(self._index, self.key_field, doc_type, dynamic=self._dynamic)

    def action(self, record: Any) -> Action:
        """Return the action for a record. Raises :class:`TypeMismatchError` if it cannot be a document."""
        document = _document(record)
        index = self._field(document, self._index, record, "index") if self._dynamic else self._index
        target = {"_index": index}
        if self._doc_type is not None:
            target["_type"] = self._doc_type
        if self.key_field is None:
            return Action(_lines({"index": target}, document, record), None, record)
        target["_id"] = key = self._field(document, self.key_field, record, "id of the document")
        return Action(
            _lines({"update": target}, {"doc": document, "doc_as_upsert": True}, record), (index, key), record
        )

    def _field(self, document: Mapping[str, Any], name: str, record: Any, role: str) -> str:
        value = document.get(name)
        if value is None:
            raise TypeMismatchError(f"a record has no field {name!r}, which is its {role}: {_shown(record)}")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def __repr__(self) -> str:
        index = f"the index in field {self._index!r}" if self._dynamic else f"index {self._index!r}"
        return f"{type(self).__name__}({index}{f', key {self.key_field!r}' if self.key_field else ''})"


class OpensearchEmitter(ElasticsearchEmitter):
    """The same for OpenSearch."""


def _document(record: Any) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    if isinstance(record, Row) and record.get_field_names() is not None:
        return record.as_dict()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        fields: Mapping[str, Any] = record._asdict()
        return fields
    raise TypeMismatchError(
        f"a document needs named fields, but {_shown(record)} is a {type(record).__name__}: map the stream to "
        "dictionaries, or to rows with field names"
    )


def _lines(action: Any, body: Any, record: Any) -> bytes:
    try:
        return b"%b\n%b\n" % (_json(action), _json(body))
    except (TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"a record cannot be converted to JSON: {error}. The record is {_shown(record)}"
        ) from None


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not have, as Elasticsearch's Java client does."""
    if isinstance(value, Row):
        return value.as_dict() if value.get_field_names() is not None else list(value)
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, Instant):
        return (_EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)).isoformat()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _document(value)
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return value.tolist()
    raise TypeError(f"there is no JSON for {type(value).__name__} {value!r}")


def _number(value: Decimal) -> int | float:
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise ValueError(f"the decimal {value} has more digits than a JSON number: convert it to a string")
    return number


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
