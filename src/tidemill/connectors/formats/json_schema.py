"""Converts a JSON schema to the type of rows that it describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.errors import TypeMismatchError

_FORMATS: Final = {"date": Types.SQL_DATE(), "time": Types.SQL_TIME(), "date-time": Types.SQL_TIMESTAMP()}
_SIMPLE: Final = {"number": Types.BIG_DEC(), "integer": Types.BIG_INT(), "boolean": Types.BOOLEAN()}


def type_of_schema(text: str) -> TypeInformation:
    """Return the type that a JSON schema describes. Raises :class:`TypeMismatchError` for unsupported schemas.

    >>> type_of_schema('{"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}')
    RowTypeInfo(id: BigInteger, at: String)
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise TypeMismatchError(f"the JSON schema is not valid JSON: {error}") from error
    return _type(schema, schema, "the schema")


def _type(schema: Any, root: Any, path: str) -> TypeInformation:
    if not isinstance(schema, Mapping):
        raise TypeMismatchError(f"{path} must be an object, not {schema!r}")
    if "$ref" in schema:
        return _type(_referred(str(schema["$ref"]), root), root, path)
    kinds = schema.get("type")
    # A union with null means that a value may be missing, which is always allowed.
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(named) != 1:
        raise TypeMismatchError(f"{path} must have one type, not {kinds!r}")
    kind = named[0]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _FORMATS.get(schema.get("format", ""), Types.STRING())
    if kind == "array":
        items = schema.get("items")
        if isinstance(items, list):
            return Types.TUPLE([_type(each, root, f"{path}[{index}]") for index, each in enumerate(items)])
        return Types.OBJECT_ARRAY(_type(items, root, f"the items of {path}"))
    if kind == "object":
        fields = {name: _type(each, root, f"{path}.{name}") for name, each in schema.get("properties", {}).items()}
        return Types.ROW_NAMED(list(fields), list(fields.values()))
    raise TypeMismatchError(f"{path} has type {kind!r}, which is not supported")


def _referred(reference: str, root: Any) -> Any:
    if not reference.startswith("#/"):
        raise TypeMismatchError(
            f"a reference must be within the same schema, such as #/definitions/name: {reference!r}"
        )
    found = root
    for part in reference[2:].split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
