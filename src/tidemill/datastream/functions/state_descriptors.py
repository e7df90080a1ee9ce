"""Declarations of keyed state: a name, a type, and what should happen to it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeAlias

from tidemill.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidemill.datastream.functions.basic import AggregateFunction, CallableReduceFunction, ReduceFunction
from tidemill.datastream.functions.state_ttl import StateTtlConfig

#: PyFlink lets a list of types stand for a row of them; None is a pickled object.
TypeSpec: TypeAlias = "TypeInformation | list[TypeInformation] | None"


def resolve_type(type_info: TypeSpec) -> TypeInformation:
    """A type as the user gave it as a :class:`TypeInformation`."""
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeError(
        f"a type must be a TypeInformation such as Types.STRING(), or a list of them, not {type(type_info).__name__}"
    )


class StateDescriptor(abc.ABC):
    """Names a state and tells its type. State survives a changed program by operator uid and this name.

    ``kind`` is the name of the kind of state that it declares. ``default_value`` is set for value state only.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, type_info: TypeSpec) -> None:
        if not name:
            raise ValueError(f"a state needs a name, not {name!r}")
        self.name = name
        self.type_info = resolve_type(type_info)
        self.default_value: Any = None
        self.ttl_config: StateTtlConfig | None = None
        self.queryable_name: str | None = None
        #: Functions that make values of the declared type of values stored with another, with that type.
        self.migrations: list[tuple[TypeInformation | str, Callable[[Any], Any]]] = []

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries of this state expire."""
        self.ttl_config = ttl_config

    def set_queryable(self, queryable_state_name: str) -> None:
        """Publish the committed values of this state under a name."""
        if not queryable_state_name:
            raise ValueError(f"state {self.name!r}: the name it is queried by cannot be empty")
        self.queryable_name = queryable_state_name

    def migrate_from(self, stored: TypeInformation | str, function: Callable[[Any], Any]) -> Self:
        """Let ``function`` turn each value that was stored with another type into one of the declared type.

        ``stored`` is the type as it was declared then, or as an error or an upgrade report shows it (for a class that
        is not there any more). For list state it is the type of an element, for map state that of a value; keys cannot
        be migrated. The function gets plain data: a dict for an instance of a dataclass or NamedTuple, the name of an
        enum member. It may be called several times for one value, and must then return the same.

        Not needed, but possible, where Tidemill converts values itself (a wider number, a field with a default). Call
        it once for each type that may be stored; drop it when a later epoch has been committed.

        >>> ValueStateDescriptor("total", Types.DOUBLE()).migrate_from(Types.STRING(), float)
        ValueStateDescriptor('total', Double)
        """
        if not callable(function):
            raise TypeError(f"state {self.name!r}: a migration is a function of one stored value, not {function!r}")
        self.migrations.append((stored if isinstance(stored, str) else resolve_type(stored), function))
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor):
    """Declares a :class:`ValueState`.

    >>> ValueStateDescriptor("count", Types.LONG(), default_value=0).default_value
    0
    """

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeSpec = None, default_value: Any = None) -> None:
        super().__init__(name, value_type_info)
        self.default_value = default_value


class ListStateDescriptor(StateDescriptor):
    """Declares a :class:`ListState`; ``elem_type_info`` is the type of one element."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeSpec = None) -> None:
        self.elem_type_info = resolve_type(elem_type_info)
        super().__init__(name, Types.LIST(self.elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Declares a :class:`MapState`."""

    kind = "map"

    def __init__(self, name: str, key_type_info: TypeSpec = None, value_type_info: TypeSpec = None) -> None:
        self.key_type_info = resolve_type(key_type_info)
        self.value_type_info = resolve_type(value_type_info)
        super().__init__(name, Types.MAP(self.key_type_info, self.value_type_info))


class ReducingStateDescriptor(StateDescriptor):
    """Declares a :class:`ReducingState`; the function is a ReduceFunction or a callable of two values."""

    kind = "reducing"

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeSpec = None,
    ) -> None:
        super().__init__(name, type_info)
        if isinstance(reduce_function, ReduceFunction):
            self._reduce_function = reduce_function
        elif callable(reduce_function):
            self._reduce_function = CallableReduceFunction(reduce_function)
        else:
            raise TypeError(
                f"state {name!r}: a ReduceFunction or a callable of two values is needed, "
                f"not {type(reduce_function).__name__}"
            )

    def get_reduce_function(self) -> ReduceFunction:
        """The function that makes two values one."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Declares an :class:`AggregatingState`; ``state_type_info`` is the type of the accumulator."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeSpec = None) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError(f"state {name!r}: an AggregateFunction is needed, not {type(agg_function).__name__}")
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """The function that accumulates."""
        return self._agg_function
