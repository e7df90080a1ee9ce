"""The state of a user-defined watermark generator, with which it continues in the next epoch on any worker.

Only fields that differ from those of a new generator are kept. Fields that the program configures keep the program's
values, even after the program has changed. The built-in generators keep no fields: their watermark is their whole
state.
"""

from __future__ import annotations

import base64
from typing import Any

from tidemill.common.watermark_generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
)
from tidemill.errors import SerializationError
from tidemill.python_versions import pickled_state
from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter

_FORGETFUL = frozenset({AscendingTimestampsWatermarks, BoundedOutOfOrdernessWatermarks, NoWatermarksGenerator})


def is_built_in(generator: Any) -> bool:
    """Whether a generator has no state besides its watermark."""
    return type(generator) in _FORGETFUL


class GeneratorFields:
    """The fields of one generator, read with its ``__getstate__``. Must be created while the generator is new."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._first = {} if is_built_in(generator) else {n: (v, _encoded(v)) for n, v in _fields(generator).items()}

    def restore(self, kept: str) -> None:
        """Set the fields that :meth:`changed` returned."""
        changed = TaggedReader().loads(base64.b64decode(kept))
        setter = getattr(self._generator, "__setstate__", None)
        if setter is not None:
            setter({**_fields(self._generator), **changed})
            return
        for name, value in changed.items():
            setattr(self._generator, name, value)

    def changed(self) -> str | None:
        """The fields that differ from those of the new generator, encoded; None if there are none."""
        if is_built_in(self._generator):
            return None
        changed = {}
        for name, value in _fields(self._generator).items():
            first, encoded = self._first.get(name, (None, None))
            now = _encoded(value)
            if now is None:
                if value is first:
                    continue  # such as a lock or a connection: the one that a new generator creates is equivalent
                raise SerializationError(
                    f"field {name!r} of {type(self._generator).__name__} cannot be kept from one epoch to the next: a "
                    f"{type(value).__name__} cannot be pickled. Give the generator a __getstate__() that leaves it out."
                )
            if now != encoded:
                changed[name] = value
        return base64.b64encode(TaggedWriter().dumps(changed)).decode("ascii") if changed else None


def _fields(generator: Any) -> dict[str, Any]:
    state = pickled_state(generator)
    if isinstance(state, tuple):  # with __slots__
        return {**(state[0] or {}), **(state[1] or {})}
    return dict(state or {})


def _encoded(value: Any) -> bytes | None:
    try:
        return TaggedWriter().dumps(value)
    except SerializationError:
        return None
