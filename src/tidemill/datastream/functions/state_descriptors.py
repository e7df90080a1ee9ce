"""State descriptors, which declare the name, type and settings of a state."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from tidemill.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidemill.datastream.functions.basic import AggregateFunction, CallableReduceFunction, ReduceFunction
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.python_versions import Self

#: As in PyFlink, a list of types denotes a row of these types. None denotes a pickled object.
TypeSpec: TypeAlias = "TypeInformation | list[TypeInformation] | None"


def resolve_type(type_info: TypeSpec) -> TypeInformation:
    """Convert a type argument to a :class:`TypeInformation`."""
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
    """Declares the name and type of a state. A changed program finds its state by the operator uid and this name.

    ``kind`` is the kind of state. ``default_value`` is only set for value state.
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
        #: Pairs of a stored type and a function that converts its values to the declared type.
        self.migrations: list[tuple[TypeInformation | str, Callable[[Any], Any]]] = []

    def get_name(self) -> str:
        """The name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Enables expiration of the entries of this state."""
        self.ttl_config = ttl_config

    def set_queryable(self, queryable_state_name: str) -> None:
        """Makes the committed values of this state queryable under a name."""
        if not queryable_state_name:
            raise ValueError(f"state {self.name!r}: the queryable state name must not be empty")
        self.queryable_name = queryable_state_name

    def migrate_from(self, stored: TypeInformation | str, function: Callable[[Any], Any]) -> Self:
        """Registers a function that converts values stored with another type to the declared type.

        ``stored`` is the type that was declared then, or its text in an error or an upgrade report (for a class that no
        longer exists). For list state it is the type of an element, for map state the type of a value; keys cannot be
        migrated. The function receives plain data: a dict for an instance of a dataclass or NamedTuple, and the name of
        an enum member. It may be called several times for one value and must return the same result each time.

        A migration is optional where Tidemill converts values itself (a wider number, a field with a default). Call
        this method once for each type that may be stored. The migration can be removed once a later epoch has been
        committed.

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
        """The function that combines two values."""
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
        """The aggregate function."""
        return self._agg_function
