"""``Types``: factory for all type information that can be declared."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tidemill.common.type_kinds.base import TypeInformation, WrapperTypeInfo
from tidemill.common.type_kinds.basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from tidemill.common.type_kinds.composite import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from tidemill.common.type_kinds.infer import dataclass_fields, infer_type_from_hint, named_tuple_fields
from tidemill.common.type_kinds.python import DataclassTypeInfo, EnumTypeInfo, NamedTupleTypeInfo

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DataclassTypeInfo",
    "DateTypeInfo",
    "EnumTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "NamedTupleTypeInfo",
    "ObjectArrayTypeInfo",
    "OptionalTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "WrapperTypeInfo",
    "infer_type_from_hint",
]


class Types:
    """Creates type information.

    >>> Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
    RowTypeInfo(id: Long, tags: ListTypeInfo<String>)
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """``str`` or None."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """``int`` of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """``bool``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """``int`` of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """``int`` of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """``int`` of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """``float`` or ``int``."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """``float`` or ``int``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """``str`` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """``int`` of any size, or None."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """``decimal.Decimal`` or None."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """:class:`~tidemill.common.Instant` or None."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """``datetime.date`` or None."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """``datetime.time`` or None."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """``datetime.datetime`` or None."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object that can be pickled."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """:class:`~tidemill.common.Row` with fields of these types, which may be None."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """:class:`~tidemill.common.Row` with fields of these names and types, which may be None."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """A tuple with fields of these types."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """An array of primitive values. With ``Types.BYTE()`` it is ``bytes``."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """An array of basic values, which may be None."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """An array of any values of one type, which may be None."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """A dict with keys and values of these types; values may be None."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """A list with elements of this type."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def OPTIONAL(type_info: TypeInformation) -> TypeInformation:
        """None or a value of this type. Not part of PyFlink."""
        return type_info if type_info.nullable else OptionalTypeInfo(type_info)

    @staticmethod
    def DATACLASS(python_class: type) -> DataclassTypeInfo:
        """Instances of a dataclass. Its type hints determine the types of its fields. Not part of PyFlink."""
        return DataclassTypeInfo(python_class, dataclass_fields(python_class))

    @staticmethod
    def NAMED_TUPLE(python_class: type) -> NamedTupleTypeInfo:
        """Instances of a NamedTuple class. Its type hints determine the types of its fields. Not part of PyFlink."""
        return NamedTupleTypeInfo(python_class, named_tuple_fields(python_class))

    @staticmethod
    def ENUM(python_class: type[Enum]) -> EnumTypeInfo:
        """Members of an enum. Not part of PyFlink."""
        return EnumTypeInfo(python_class)
