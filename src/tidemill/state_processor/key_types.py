"""The type that the keys of an operator are declared with, and whether a key that somebody gives is of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.common.type_kinds.base import restore
from tidemill.common.typeinfo import TypeInformation
from tidemill.errors import StateError, TypeMismatchError
from tidemill.state.codecs.serializers import parse_snapshot

__all__ = ["check_key"]


def check_key(types: Any, key: Any, uid: str) -> None:
    """Raise :class:`StateError` for a key that an operator cannot have; ``types`` is the snapshot of a state's types.

    Nothing is known of keys without a declared type, nor of classes, which are not imported for this.
    """
    description = parse_snapshot(types).get("key")
    declared = None if description is None else _plain_type(description)
    if declared is None:
        return
    try:
        declared.validate(key)
    except TypeMismatchError:
        raise StateError(
            f"{key!r} is no key of the operator with uid {uid!r}: it is a {type(key).__name__}, and keys are declared "
            f"as {declared}"
        ) from None


def _plain_type(description: Mapping[str, Any]) -> TypeInformation | None:
    """The type with this description, if it is made of Python's own values only."""
    parts = description.get("types", ())
    if description.get("kind") not in ("basic", "tuple") or any(_plain_type(part) is None for part in parts):
        return None
    return restore(description)
