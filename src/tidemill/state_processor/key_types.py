"""Checks a key against the declared key type of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.common.type_kinds.base import restore
from tidemill.common.typeinfo import TypeInformation
from tidemill.errors import StateError, TypeMismatchError
from tidemill.state.codecs.serializers import parse_type_snapshot

__all__ = ["check_key"]


def check_key(types: Any, key: Any, uid: str) -> None:
    """Raise :class:`StateError` for a key that is not of an operator's key type; ``types`` is a state's type snapshot.

    Keys without a declared type, and keys of user classes, which are not imported for this, are not checked.
    """
    description = parse_type_snapshot(types).get("key")
    declared = None if description is None else _plain_type(description)
    if declared is None:
        return
    try:
        declared.validate(key)
    except TypeMismatchError:
        raise StateError(
            f"{key!r} is not a key of the operator with uid {uid!r}: it is a {type(key).__name__}, but keys are "
            f"declared as {declared}"
        ) from None


def _plain_type(description: Mapping[str, Any]) -> TypeInformation | None:
    """The type with this description, if it consists of built-in Python types only."""
    parts = description.get("types", ())
    if description.get("kind") not in ("basic", "tuple") or any(_plain_type(part) is None for part in parts):
        return None
    return restore(description)
