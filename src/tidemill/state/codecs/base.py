"""The interface of column codecs, and helpers that all codecs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import TRUSTED, Loading, class_name

__all__ = [
    "DESCRIPTION_VERSION",
    "NONE",
    "TRUSTED",
    "ColumnCodec",
    "Loading",
    "codec_from_description",
    "kinds_of",
    "null_mask",
    "put_nulls",
    "refuse",
    "restore_codec",
    "to_list",
]

#: Version of the result of :meth:`ColumnCodec.describe`.
DESCRIPTION_VERSION = 1

NONE = type(None)


class ColumnCodec(ABC):
    """Converts a list of Python values to one Arrow array, and back, one batch at a time. Stateless and immutable.

    ``None`` is a valid value for every codec and becomes an Arrow null. Values are normalised to a declared type if
    they stay equal (a bool in a LONG, an int in a DOUBLE, a numpy scalar) or if the type information accepts them (a
    list in a TUPLE, a dict in a ROW); other values raise :class:`SerializationError`.
    """

    #: Name in descriptions; must never change.
    name: ClassVar[str]
    #: The type of the arrays that :meth:`encode` returns.
    arrow_type: Any

    _codecs: ClassVar[dict[str, Callable[[Mapping[str, Any], Loading], ColumnCodec]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            ColumnCodec._codecs[cls.name] = cls._restore

    def encode(self, values: list[Any]) -> Any:
        """The values as an array of ``arrow_type``; ``decode`` is the exact inverse.

        Use :meth:`encode_best`, or ``encode_column``, unless the type must be the same for every batch.
        """
        return self._encode(values, exact=True)[1]

    def encode_best(self, values: list[Any]) -> tuple[ColumnCodec, Any]:
        """The values in the best encoding for this batch, and the codec that decodes them.

        The codec is this one, or a more compact one (unknown types), or one that supports values that this one does not
        (lone surrogates, time zones, None as a map's key). Its description is all that is needed to read the array.
        """
        return self._encode(values, exact=False)

    @abstractmethod
    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        """Implements both; with ``exact`` the returned codec is this one."""

    @abstractmethod
    def decode(self, array: Any) -> list[Any]:
        """The values of an array that was encoded by this codec; the array may be a slice."""

    def describe(self) -> dict[str, Any]:
        """This codec as plain JSON data, from which :func:`codec_from_description` restores it."""
        return {"v": DESCRIPTION_VERSION, **self.spec()}

    def spec(self) -> dict[str, Any]:
        """Like :meth:`describe`, without the version: for use inside another description."""
        return {"codec": self.name, **self._parameters()}

    def classes(self) -> dict[str, type]:
        """The user classes of this codec by name, so that its data can be read if no module contains the classes."""
        return {}

    def _parameters(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnCodec) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return hash(str(self.spec()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._parameters().items())})"


def restore_codec(spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
    """The inverse of :meth:`ColumnCodec.spec`."""
    name = spec.get("codec", "")
    restore = loading.codecs.get(name) or ColumnCodec._codecs.get(name)
    if restore is None:
        raise SerializationError(f"unknown column codec {spec.get('codec')!r}; was it written by a newer version?")
    codec: ColumnCodec = restore(spec, loading)
    return codec


def codec_from_description(
    description: Mapping[str, Any],
    *,
    allow_pickle: bool = True,
    classes: Mapping[str, type] | None = None,
    loading: Loading | None = None,
) -> ColumnCodec:
    """The codec with the given result of :meth:`ColumnCodec.describe`.

    Classes are looked up in ``classes`` before any module. With ``allow_pickle=False`` no code from the file runs: a
    column with pickled values is rejected, and no module is imported. ``loading`` combines these options. Raises
    :class:`SerializationError`.
    """
    if description.get("v") != DESCRIPTION_VERSION:
        raise SerializationError(
            f"a column codec of version {description.get('v')!r} cannot be read; this is version {DESCRIPTION_VERSION}"
        )
    try:
        return restore_codec(description, loading or Loading(allow_pickle, classes or {}))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SerializationError(f"a column codec has a damaged description: {error!r}") from error


def kinds_of(values: Iterable[Any]) -> set[type]:
    """The exact types of the values; about 15 ns per value."""
    return set(map(type, values))


def refuse(values: list[Any], expected: str, fits: Callable[[Any], bool]) -> NoReturn:
    """Raise the error for the first value that does not fit."""
    for i, value in enumerate(values):
        if value is not None and not fits(value):
            detail = f" of {value.bit_length()} bits" if type(value) is int else ""
            raise SerializationError(
                f"value {i} of {len(values)} cannot be stored: expected {expected}, got "
                f"{class_name(type(value)).removeprefix('builtins:')}{detail}"
            )
    raise SerializationError(f"a value cannot be stored as {expected}")


def null_mask(values: list[Any]) -> Any:
    return pa.array([value is None for value in values], pa.bool_())


def put_nulls(values: list[Any], array: Any) -> list[Any]:
    """``values`` with None at each null of ``array``."""
    if array.null_count:
        for i in array.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            values[i] = None
    return values


def to_list(array: Any) -> list[Any]:
    """The values of an array as converted by numpy, in C; not for integers and bools with nulls."""
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values
