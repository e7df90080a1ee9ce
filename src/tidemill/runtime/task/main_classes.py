"""Classes of the user's main script, made known to workers.

Records, keys and state values of such classes are stored and sent by the name of their class, ``__main__.Payment``. In
the driver that name leads to the class; in a worker ``__main__`` is Spark's own program. So the classes travel with the
job, and a worker puts them where they would be if it had run the script.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from typing import Any

import cloudpickle

from tidemill.datastream.functions.base import Function

_installed: set[str] = set()


def main_script_classes() -> tuple[bytes, ...]:
    """The classes of this process's main script of which data can be made, each pickled by value.

    Functions of the job are not among them, they travel with their operators; nor is what cannot be pickled.
    """
    pickled = []
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if not isinstance(value, type) or value.__module__ != "__main__" or value.__name__ != name:
            continue
        if not issubclass(value, Function):
            try:
                pickled.append(cloudpickle.dumps(value))
            except Exception:  # noqa: S112 - whatever it is, the job may well do without it
                continue
    return tuple(pickled)


def install_main_classes(pickled: Iterable[bytes]) -> None:
    """Give this process's ``__main__`` the classes of the driver's, apart from names that mean something here."""
    main = sys.modules["__main__"]
    for data in pickled:
        try:
            cls: Any = pickle.loads(data)
        except Exception:  # noqa: S112 - one that uses types of a C library, say: the job may well do without it
            continue
        if cls.__name__ in _installed or not hasattr(main, cls.__name__):
            setattr(main, cls.__name__, cls)
            _installed.add(cls.__name__)
