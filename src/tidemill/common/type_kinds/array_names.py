"""The names that PyFlink 1.12 has for arrays of basic values."""

from __future__ import annotations

from tidemill.common.type_kinds.base import TypeInformation
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo
from tidemill.python_versions import Self

__all__ = ["BasicArrays", "PrimitiveArrays"]


class PrimitiveArrays:
    """A type of arrays of primitive values."""

    def __init__(self, element_type: TypeInformation) -> None:
        """See the subclass."""

    @classmethod
    def BOOLEAN_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.BOOLEAN))

    @classmethod
    def BYTE_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.BYTE))

    @classmethod
    def SHORT_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.SHORT))

    @classmethod
    def INT_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.INT))

    @classmethod
    def LONG_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.LONG))

    @classmethod
    def FLOAT_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.FLOAT))

    @classmethod
    def DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.DOUBLE))

    @classmethod
    def CHAR_PRIMITIVE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.CHAR))


class BasicArrays:
    """A type of arrays of basic values, which may be None."""

    def __init__(self, element_type: TypeInformation) -> None:
        """See the subclass."""

    @classmethod
    def BOOLEAN_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.BOOLEAN))

    @classmethod
    def BYTE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.BYTE))

    @classmethod
    def SHORT_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.SHORT))

    @classmethod
    def INT_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.INT))

    @classmethod
    def LONG_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.LONG))

    @classmethod
    def FLOAT_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.FLOAT))

    @classmethod
    def DOUBLE_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.DOUBLE))

    @classmethod
    def CHAR_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.CHAR))

    @classmethod
    def STRING_ARRAY_TYPE_INFO(cls) -> Self:
        return cls(BasicTypeInfo(BasicType.STRING))
