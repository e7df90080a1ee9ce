"""Selects the state backend of a job by name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from tidemill.common.configuration import Configuration
from tidemill.config import StateOptions
from tidemill.errors import ConfigurationError
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend

_NAMED = {
    "hashmap": "tidemill.state.keyed.hashmap.HashMapBackend",
    "rocksdb": "tidemill.state.rocksdb.RocksDBBackend",
}


@dataclass(frozen=True)
class BackendChoice:
    """A backend by name, with its settings from the job's configuration; is sent to the workers."""

    name: str = "hashmap"
    settings: Any = None

    def create(self, place: BackendPlace) -> KeyedStateBackend:
        """Create a backend at a place."""
        return backend_class(self.name).create(place, self.settings)


def choose_backend(configuration: Configuration) -> BackendChoice:
    """The backend selected by ``state.backend.type``: ``hashmap``, ``rocksdb``, or the dotted name of another class.

    >>> conf = Configuration()
    >>> conf.set_string("state.backend.type", "rocksdb")
    Configuration({'state.backend.type': 'rocksdb'})
    >>> choose_backend(conf).name
    'rocksdb'
    """
    name = configuration.get(StateOptions.BACKEND)
    return BackendChoice(name, backend_class(name).settings(configuration))


def backend_class(name: str) -> type[KeyedStateBackend]:
    """The class of a backend. Raises :class:`ConfigurationError` if the name does not refer to one."""
    module, _, attribute = _NAMED.get(name, name).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"state.backend.type {name!r} is not an importable class: {error}") from error
    if not (isinstance(found, type) and issubclass(found, KeyedStateBackend)):
        raise ConfigurationError(
            f"state.backend.type {name!r} is not a state backend: it must be a subclass of "
            "tidemill.state.keyed.backend.KeyedStateBackend"
        )
    return found
