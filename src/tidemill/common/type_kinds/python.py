"""Types of Python classes: dataclasses, NamedTuples and enums. PyFlink has no such types."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

from tidemill.common.calls import with_each
from tidemill.common.moved import current_module, first_module
from tidemill.common.type_kinds.base import FastCheck, TypeInformation, all_types_in, restore
from tidemill.errors import SerializationError, TypeMismatchError
from tidemill.python_versions import Self


class _ClassTypeInfo(TypeInformation):
    """Instances of one class."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    @property
    def python_class(self) -> type:
        return self._cls

    def _identity(self) -> tuple[Any, ...]:
        return (class_name(self._cls),)

    def _parameters(self) -> dict[str, Any]:
        return {"class": class_name(self._cls)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._cls.__qualname__}>"


class _FieldsTypeInfo(_ClassTypeInfo):
    """Instances of a class with typed fields. The objects and their fields are passed on without conversion."""

    def __init__(self, cls: type, fields: Mapping[str, TypeInformation]) -> None:
        super().__init__(cls)
        self._fields = dict(fields)

    def get_field_names(self) -> list[str]:
        return list(self._fields)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._fields.values())

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, self._cls):
            self.mismatch(value, path)
        for name, field_type in self._fields.items():
            try:
                field = getattr(value, name)
            except AttributeError:
                self.mismatch(value, path, f" (its field '{name}' is not set)")
            field_type.validate(field, f"{path}.{name}")

    def fast_check(self) -> FastCheck:
        exact = frozenset((self._cls,))
        columns = [(attrgetter(name), field_type.validator()) for name, field_type in self._fields.items()]

        def check(values: Sequence[Any]) -> bool:
            if not all_types_in(exact, values):
                return False
            try:
                for getter, validate in columns:
                    validate(with_each(getter, values))
            except (AttributeError, TypeMismatchError):
                return False
            return True

        return check

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), tuple(self._fields.items()))

    def _parameters(self) -> dict[str, Any]:
        fields = {name: t.describe() for name, t in self._fields.items()}
        return {**super()._parameters(), "fields": fields, "defaults": default_names(self._cls)}

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> Self:
        return cls(find_class(data["class"]), {name: restore(t) for name, t in data["fields"].items()})


class DataclassTypeInfo(_FieldsTypeInfo):
    """Instances of a dataclass."""

    kind = "dataclass"

    def __init__(self, cls: type, fields: Mapping[str, TypeInformation]) -> None:
        if not is_dataclass_class(cls):
            raise TypeMismatchError(f"Types.DATACLASS needs a dataclass, not {cls!r}")
        super().__init__(cls, fields)


class NamedTupleTypeInfo(_FieldsTypeInfo):
    """Instances of a NamedTuple class."""

    kind = "named_tuple"

    def __init__(self, cls: type, fields: Mapping[str, TypeInformation]) -> None:
        if not is_named_tuple(cls):
            raise TypeMismatchError(f"Types.NAMED_TUPLE needs a NamedTuple class, not {cls!r}")
        super().__init__(cls, fields)


class EnumTypeInfo(_ClassTypeInfo):
    """Members of an enum."""

    kind = "enum"

    def __init__(self, cls: type[Enum]) -> None:
        if not is_enum_class(cls):
            raise TypeMismatchError(f"Types.ENUM needs an Enum class, not {cls!r}")
        super().__init__(cls)

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, self._cls):
            self.mismatch(value, path)

    def fast_check(self) -> FastCheck:
        exact = frozenset((self._cls,))
        return lambda values: all_types_in(exact, values)

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "members": [member.name for member in self._cls]}  # type: ignore[attr-defined]

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return cls(find_class(data["class"]))


def is_dataclass_class(cls: object) -> bool:
    """Whether ``cls`` is a dataclass, and not an instance of one."""
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def is_enum_class(cls: object) -> bool:
    """Whether ``cls`` is an enum."""
    return isinstance(cls, type) and issubclass(cls, Enum)


def is_named_tuple(cls: Any) -> bool:
    """Whether ``cls`` is a class created by ``NamedTuple`` or ``namedtuple``."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def default_names(cls: Any) -> list[str]:
    """The fields of a dataclass or a NamedTuple class that have a default."""
    if not dataclasses.is_dataclass(cls):
        return list(cls._field_defaults)
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(cls) if f.default is not missing or f.default_factory is not missing]


def class_name(cls: type) -> str:
    """The name of a class in stored files: ``module:qualname``."""
    return f"{first_module(cls.__module__)}:{cls.__qualname__}"


def find_class(name: str) -> type:
    """The inverse of :func:`class_name`. Raises :class:`SerializationError` if the class cannot be imported."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(current_module(module))
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SerializationError(
            f"the class {name} of a stored type cannot be imported ({error}); was it moved or renamed, or is it "
            "defined inside a function or a script?"
        ) from error
    if not isinstance(found, type):
        raise SerializationError(f"{name} of a stored type is not a class")
    return found
