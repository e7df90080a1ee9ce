"""Names that a module has because PyFlink's module of that name has them, and that are defined elsewhere.

PyFlink's packages re-export the classes of their modules, and its modules have every name that they import. Programs
import from both. Such names are looked up on first use, so that a module does not load connectors it does not need.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

__all__ = ["PYTHON_NAMES", "names_elsewhere"]

#: What PyFlink's modules import from Python and for Java objects, and where it is.
PYTHON_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("Any", "Callable", "Dict", "List", "Optional", "Set", "TYPE_CHECKING", "Tuple", "Union", "cast"), "typing"
    ),
    **dict.fromkeys(("ABC", "ABCMeta", "abstractmethod"), "abc"),
    **{module: module for module in ("abc", "warnings")},
    "Enum": "enum",
    **dict.fromkeys(("JavaObject", "get_java_class", "java_import"), "py4j.java_gateway"),
    "get_gateway": "tidemill.java_gateway",
    **dict.fromkeys(
        ("get_field", "get_field_value", "is_instance_of", "load_java_class", "to_jarray"), "tidemill.util.java_utils"
    ),
    "JavaFunctionWrapper": "tidemill.datastream.functions",
    "JavaObjectWrapper": "tidemill.common.utils",
    "WrapperTypeInfo": "tidemill.common.typeinfo",
    **dict.fromkeys(
        ("ResultTypeQueryable", "create_hadoop_configuration", "create_java_properties"), "tidemill.datastream.utils"
    ),
}


def names_elsewhere(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module, which imports each name from its place.

    A place is the name of a module: the one that has the name or, if their names are the same, the one that is meant. A
    name in a module that does not exist is one that the module does not have.
    """

    def find(name: str) -> Any:
        place = places.get(name)
        found = None if place is None else _imported(place)
        if found is not None and hasattr(found, name):
            return getattr(found, name)
        if found is not None and place is not None and place.rpartition(".")[2] == name:
            return found
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def _imported(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            return None
        raise
