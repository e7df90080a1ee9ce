"""Keeps records as they were when a function emitted them, whatever it does with its objects afterwards.

A function may yield a list and clear it, return the same dict repeatedly, or store what it emits in its state. Flink
serializes a record when it is emitted. Here, records leave an operator a batch at a time. Mutable objects are therefore
captured when they are emitted: without a copy if nothing else refers to them, otherwise as copies. Immutable objects
need no check, and most operators are known to emit only such objects:

- by the type of their output;
- from the code of their function (:mod:`tidemill.runtime.batch.plain_functions`);
- by observation: if all records of the first batch were of immutable types, later batches are only checked afterwards,
  at a few nanoseconds per record. If such a batch contains a mutable record, it is too late for a copy: the epoch is
  run again, and from then on the records of the operator are captured one by one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain
from sys import getrefcount
from typing import Any, Final

from tidemill.common.calls import call_each
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import Row
from tidemill.datastream.output_tag import OutputTag
from tidemill.errors import FailureSite, SerializationError, TidemillError
from tidemill.state.codecs.copies import ATOMIC, copied_record, detached, fields_of
from tidemill.state.keyed.backend import immutable_type

#: Immutable types that have no parts to check.
_LEAVES: Final = ATOMIC | {OutputTag}
#: The base class of all NumPy scalars, by name: NumPy may not be imported.
_NUMPY_SCALAR: Final = ("numpy", "generic")


class UnsteadyOutputError(TidemillError):
    """An operator that had emitted only immutable records has emitted a mutable one: the epoch must be run again."""


class Knowledge(enum.Enum):
    """What is known about the objects that an operator emits."""

    #: Nothing yet.
    NONE = enum.auto()
    #: All of them have been immutable so far.
    STEADY = enum.auto()
    #: They are mutable, or may be.
    CHANGING = enum.auto()
    #: All of them are immutable by their declared type.
    FIXED = enum.auto()
    #: They are passed on without copies, whatever they are.
    REUSED = enum.auto()


class Emissions:
    """Captures what the function of one operator instance emits.

    Records are added to lists with :meth:`extend_of` and :meth:`take`. When a batch is complete, :meth:`settle` returns
    whether all of its records are known to be immutable.
    """

    def __init__(self, where: str, uid: str, knowledge: Knowledge, *, learns: bool = True) -> None:
        """With ``learns``, records are not inspected one by one once all of a batch were immutable.

        If that turns out to be wrong, the epoch must be run again.
        """
        # configuration
        self._where = where
        self._uid = uid
        self._learns = learns
        # transient
        self._knowledge = knowledge

    @classmethod
    def of(
        cls,
        where: str,
        uid: str,
        output_type: TypeInformation | None,
        side_types: Iterable[TypeInformation],
        *,
        reuse: bool = False,
        learns: bool = True,
    ) -> Emissions:
        """Create the emissions of an operator with these declared types; ``reuse`` is ``pipeline.object-reuse``."""
        # A declaration is trusted only if an epoch can be run again when a function violates it.
        fixed = learns and output_type is not None and all(immutable_type(one) for one in (output_type, *side_types))
        knowledge = Knowledge.REUSED if reuse else Knowledge.FIXED if fixed else Knowledge.NONE
        return cls(where, uid, knowledge, learns=learns)

    @property
    def looks(self) -> bool:
        """Whether each record is inspected when it is emitted."""
        return self._knowledge in (Knowledge.NONE, Knowledge.CHANGING)

    @property
    def reuses(self) -> bool:
        """Whether objects are passed on without copies, even to several consumers."""
        return self._knowledge is Knowledge.REUSED

    def pin(self) -> None:
        """Inspect each record from now on."""
        if self._knowledge is not Knowledge.REUSED:
            self._knowledge = Knowledge.CHANGING

    def extend_of(self, values: list[Any]) -> Callable[[Iterable[Any]], None]:
        """Return a function like ``values.extend`` for the iterable that a user function returns."""
        if not self.looks:
            return values.extend

        append, take, leaves = values.append, self.take, _LEAVES

        def extend(more: Iterable[Any]) -> None:
            # The references that the function does not hold: our variable, and the list if it was created for us.
            ours = 2 if type(more) is list and getrefcount(more) <= _LIST else 1
            for value in more:  # usually one
                append(value if type(value) in leaves else take(value, ours))

        return extend

    def take(self, value: Any, ours: int = 0) -> Any:
        """Return the value, or a copy if something else may change it.

        ``ours`` is the number of references to it that the caller holds.
        """
        kind = type(value)
        if kind is tuple and _LEAVES.issuperset(map(type, value)):
            return value
        if getrefcount(value) <= _NEW + ours and is_unshared(value):
            return value
        if are_fixed([value]):
            return value
        if kind is tuple:
            return tuple([item if are_fixed([item]) else self.copy(item) for item in value])
        return self.copy(value)

    def take_returned(self, value: Any, argument: Any) -> Any:
        """Like :meth:`take`, for the result of a function, which may be its argument."""
        if type(value) in _LEAVES:
            return value
        # Our references: the variable here and, for the argument itself, those of the callers and the batch.
        return self.take(value, _ARGUMENT if value is argument else _RETURNED)

    def copy(self, value: Any) -> Any:
        """Return a copy of a value, for another consumer."""
        try:
            return copied_record(value)
        except SerializationError as error:
            raise SerializationError(
                f"{error}. A copy is needed because {self._where} emits it and other code may change it. Emit a record "
                "that can be pickled, or set pipeline.object-reuse: true to pass objects on without copies"
            ) from error

    def settle(self, values: list[Any]) -> bool:
        """Return whether all records of a complete batch are known to be immutable."""
        knowledge = self._knowledge
        if knowledge is Knowledge.FIXED:
            return True
        if knowledge is Knowledge.STEADY:
            self.check_steady(values)
            return True
        if knowledge is Knowledge.NONE:
            fixed = are_fixed(values)
            if fixed and self._learns:
                self._knowledge = Knowledge.STEADY
            elif not fixed:
                self._knowledge = Knowledge.CHANGING
            return fixed
        return False

    def check_shaped(self, values: list[Any], shaped: list[Any]) -> None:
        """Check records that were converted to their declared type: a converted object may have been changed since."""
        if self._knowledge is Knowledge.FIXED and shaped is not values:
            self.check_steady(values)

    def check_steady(self, values: list[Any]) -> None:
        """Raise :class:`UnsteadyOutputError` if one of the values is mutable."""
        if are_fixed(values):
            return
        kind = next(type(value).__qualname__ for value in values if not are_fixed([value]))
        error = UnsteadyOutputError(
            f"{self._where} has emitted a mutable record, of type {kind}, for the first time since it was started: "
            "records are copied from now on"
        )
        error.site = FailureSite(uid=self._uid, exception=UnsteadyOutputError.__name__)
        raise error


# --- mutable values


def is_immutable(value: Any) -> bool:
    """Whether a value, or every item of a tuple, is of an immutable type."""
    return type(value) in ATOMIC or (isinstance(value, tuple) and ATOMIC.issuperset(map(type, value)))


def emitted(value: Any) -> Any:
    """Return the value itself if it is immutable, else a copy."""
    return value if is_immutable(value) else detached(value)


def are_fixed(values: Sequence[Any]) -> bool:
    """Whether all values are immutable: of atomic types, or tuples of such values.

    A batch whose records all have the types of the first one is checked fast: 10 ns per record, 35 ns per pair.

    >>> are_fixed([1, 2]), are_fixed([("a", 1), ("b", (2, None))]), are_fixed([("a", [1])])
    (True, True, False)
    """
    if not values:
        return True
    first = values[0]
    kind = type(first)
    if kind is tuple:
        same_types = _SAME_TYPES.get(len(first))
        if same_types is not None and _LEAVES.issuperset(map(type, first)):
            try:
                if not [1 for value in values if type(value) is not kind] and same_types(values, *map(type, first)):
                    return True
            except ValueError:  # of different widths
                pass
    elif kind in ATOMIC and not [1 for v in values if type(v) is not kind]:
        return True
    return _are_fixed(values)


def _are_fixed(values: Iterable[Any]) -> bool:
    while True:
        wholes = [value for value in values if type(value) not in _LEAVES]
        if not wholes:
            return True
        parts: list[Iterable[Any]] = []
        for kind in set(map(type, wholes)):
            parts_of = _parts_of(kind)
            if parts_of is None:
                return False
            parts += [parts_of(value) for value in wholes if type(value) is kind]
        values = chain.from_iterable(parts)


@lru_cache(1000)
def _parts_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """Return a function that returns the parts of an instance of an immutable class; None for other classes."""
    if issubclass(kind, tuple):
        return None if kind.__dictoffset__ else tuple.__iter__
    if kind is frozenset:
        return frozenset.__iter__
    if issubclass(kind, (Enum, range)) or any(
        (base.__module__, base.__name__) == _NUMPY_SCALAR for base in kind.__mro__
    ):
        return lambda value: ()
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return None
    names = list(vars(kind)["__dataclass_fields__"])
    return lambda value: [getattr(value, name) for name in names]


def _same_types(width: int) -> Callable[..., bool]:
    """Create a check that all tuples of a width have exactly these types. Code generated for the width is fastest."""
    names = [f"v{index}" for index in range(width)]
    kinds = [f"t{index}" for index in range(width)]
    other = " or ".join(f"type({name}) is not {kind}" for name, kind in zip(names, kinds, strict=True))
    source = f"lambda values, {', '.join(kinds)}: not [1 for {', '.join(names)}, in values if {other}]"
    made: Callable[..., bool] = eval(source)  # noqa: S307 - generated above
    return made


_SAME_TYPES: Final = {width: _same_types(width) for width in range(1, 9)}


# --- references to an object


def is_unshared(value: Any) -> bool:
    """Whether nothing else refers to the mutable parts of an object. False for unknown classes."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str and not are_fixed([key]):
                return False
        children: Iterable[Any] = value.values()
    elif kind is Row:
        children = value._values
    elif kind is list or kind is tuple:
        children = value
    else:
        fields = fields_of(value)
        if fields is None or getrefcount(fields) > _FIELDS:
            return False
        children = fields.values()
    for child in children:
        kind = type(child)
        if kind is str or kind is int or kind in _LEAVES:  # the most frequent ones first
            continue
        if getrefcount(child) > _CHILD or not is_unshared(child):
            return False
    return True


# --- the number of references that an object has if only we refer to it, as this interpreter counts them


class _Probe(Emissions):
    """Counts references in an overridden method, which is called in the same way as the original."""

    def __init__(self) -> None:
        super().__init__("", "", Knowledge.CHANGING)

    def take(self, value: Any, ours: int = 0) -> Any:
        return getrefcount(value)

    def take_returned(self, value: Any, argument: Any) -> Any:
        return self.take(value, 1)


class _Instance:
    """An instance of a plain class."""

    def __init__(self) -> None:
        self.field = 0


def _count_list(more: Iterable[Any]) -> int:
    return getrefcount(more)


def _count_new_list() -> int:
    result = [object()]
    return _count_list(result)


def _count_child(value: list[Any]) -> int:
    for child in value:
        return getrefcount(child)
    return 0


def _count_fields(value: Any) -> int:
    fields = fields_of(value)
    return 0 if fields is None else getrefcount(fields)


def _count_each(call: Callable[[Any], Any]) -> int:
    (count,) = call_each(call, [object()], lambda error, position: error)
    return int(count)


def _count_argument() -> int:
    take, same = _Probe().take_returned, _same
    return _count_each(lambda value: take(same(value), value))


def _count_chosen() -> int:
    take, same = _Probe().take, _same
    return _count_each(lambda value: take(value, 3) if same(value) else ())


def _same(value: Any) -> Any:
    return value


#: For an argument that is a temporary value of the caller.
_NEW: Final[int] = _Probe().take(object())
#: What :meth:`Emissions.take_returned` and its callers add to it, for a new value and for the argument.
_RETURNED: Final[int] = _Probe().take_returned(object(), None) - _NEW
_ARGUMENT: Final[int] = _count_argument() - _NEW
#: What the caller of :meth:`Emissions.take` has of a record that a filter has chosen.
CHOSEN: Final[int] = _count_chosen() - _NEW
#: For a list that is a variable of the caller.
_LIST: Final[int] = _count_new_list()
#: For an item of a container, in a loop over it.
_CHILD: Final[int] = _count_child([object()])
#: For the dict that contains the fields of an instance of a plain class.
_FIELDS: Final[int] = _count_fields(_Instance())
