"""What jobs need, and whether it is there: packages, and directories that work."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from tidemill.checkpoint.storage.api import AlreadyExistsError, Storage
from tidemill.checkpoint.storage.storages import LocalStorage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions
from tidemill.errors import TidemillError

__all__ = ["EXTRAS", "PACKAGES", "Finding", "checked", "directories_found", "packages_found", "version_of"]

#: What every job needs.
PACKAGES: Final = ("pyspark", "pyarrow", "cloudpickle", "numpy", "pyyaml", "rocksdict")
#: What some need: the packages of each extra.
EXTRAS: Final = {
    "avro": ("fastavro",),
    "kafka": ("confluent-kafka",),
    "object-store": ("obstore",),
    "ops": ("fastapi", "prometheus-client", "python-multipart", "rich", "typer", "uvicorn"),
    "postgres": ("psycopg",),
}


@dataclass(frozen=True)
class Finding:
    """What was found about one thing: ``status`` is ok, absent (only some jobs need it) or problem."""

    what: str
    status: str
    detail: str


def packages_found() -> Iterator[Finding]:
    """Which packages there are, of those that every job needs and of each extra."""
    for name in PACKAGES:
        found = version_of(name)
        missing = f"pip install {name}"
        yield Finding(f"package {name}", "problem" if found is None else "ok", found or missing)
    for extra, names in EXTRAS.items():
        absent = [name for name in names if version_of(name) is None]
        detail = ", ".join(f"{name} {version_of(name)}" for name in names)
        hint = f"without {', '.join(absent)}: pip install 'tidemill[{extra}]'"
        yield Finding(f"extra {extra}", "absent" if absent else "ok", hint if absent else detail)


def directories_found(settings: Configuration) -> Iterator[Finding]:
    """Whether the directories of a configuration can be written and read."""
    for option in (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY):
        directory = settings.get(option)
        if directory is not None:
            yield checked(option.key, partial(_directory, directory, settings))


def checked(what: str, check: Callable[[], str]) -> Finding:
    """What a check says, or what it raises, in one line."""
    try:
        return Finding(what, "ok", check())
    except (TidemillError, OSError) as error:
        return Finding(what, "problem", " ".join(str(error).split()))


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _directory(place: str, settings: Configuration) -> str:
    """Create, read and delete a file there; nobody must be able to create it a second time.

    A local directory that is not there is not made.
    """
    storage = storage_for(place, options=store_options(settings))
    if isinstance(storage, LocalStorage) and not storage.root.exists():
        parent = next(path for path in storage.root.absolute().parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise OSError(f"{storage.root} is not there, and cannot be made in {parent}: no permission to write")
        return f"{place} is not there yet, and can be made"
    name = f"doctor-{secrets.token_hex(8)}"
    try:
        storage.create(name, b"tidemill")
        created_once = _is_taken(storage, name) and storage.read(name) == b"tidemill"
        storage.delete([name])
    finally:
        storage.close()
    if not created_once:
        raise OSError(
            f"{place} creates a name that exists already: two drivers could commit the same epoch there. Put "
            "checkpoints on a file system or an object store that creates names exclusively"
        )
    return f"{place} can be written and read"


def _is_taken(storage: Storage, name: str) -> bool:
    try:
        storage.create(name, b"another driver")
    except AlreadyExistsError:
        return True
    return False
