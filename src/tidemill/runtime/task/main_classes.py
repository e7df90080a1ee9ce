"""Makes classes of the user's main script available on workers.

Records, keys and state values of such classes are stored and sent with the name of their class, ``__main__.Payment``.
In the driver that name refers to the class; in a worker ``__main__`` is Spark's own program. The classes are therefore
sent with the job, and a worker adds them to its ``__main__`` as if it had run the script.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from typing import Any

from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.pickling import pickled_by_value

_installed: set[str] = set()


def main_script_classes() -> tuple[bytes, ...]:
    """The classes of this process's main script that records can be instances of, each pickled by value.

    Excludes functions of the job, which are sent with their operators, and classes that cannot be pickled.
    """
    pickled = []
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if not isinstance(value, type) or value.__module__ != "__main__" or value.__name__ != name:
            continue
        if not issubclass(value, Function):
            try:
                pickled.append(pickled_by_value(value))
            except Exception:  # noqa: S112 - the job may not need this class
                continue
    return tuple(pickled)


def install_main_classes(pickled: Iterable[bytes]) -> None:
    """Add the classes of the driver's main script to this process's ``__main__``, except names that exist here."""
    main = sys.modules["__main__"]
    for data in pickled:
        try:
            cls: Any = pickle.loads(data)
        except Exception:  # noqa: S112 - such as one that uses types of a C library: the job may not need this class
            continue
        if cls.__name__ in _installed or not hasattr(main, cls.__name__):
            setattr(main, cls.__name__, cls)
            _installed.add(cls.__name__)
