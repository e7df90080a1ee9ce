"""Checks of what jobs require: installed packages, and directories that can be written and read."""

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

#: Packages that every job requires.
PACKAGES: Final = ("pyarrow", "cloudpickle", "numpy", "pyyaml", "rocksdict")
#: Packages that only some jobs require, by extra.
EXTRAS: Final = {
    "avro": ("fastavro",),
    "cassandra": ("cassandra-driver",),
    "elasticsearch": ("elastic-transport",),
    "kafka": ("confluent-kafka",),
    "kinesis": ("boto3",),
    "mysql": ("pymysql",),
    "object-store": ("obstore",),
    "ops": ("fastapi", "prometheus-client", "python-multipart", "rich", "typer", "uvicorn"),
    "oracle": ("oracledb",),
    "pandas": ("pandas",),
    "polars": ("polars",),
    "postgres": ("psycopg",),
    "pulsar": ("pulsar-client",),
    "rabbitmq": ("pika",),
    "spark": ("pyspark",),
    "sqlserver": ("pymssql",),
}


@dataclass(frozen=True)
class Finding:
    """The result of one check: ``status`` is ok, absent (only some jobs require it) or problem."""

    what: str
    status: str
    detail: str


def packages_found() -> Iterator[Finding]:
    """Check which packages are installed: those that every job requires, and those of each extra."""
    for name in PACKAGES:
        found = version_of(name)
        missing = f"pip install {name}"
        yield Finding(f"package {name}", "problem" if found is None else "ok", found or missing)
    for extra, names in EXTRAS.items():
        absent = [name for name in names if version_of(name) is None]
        detail = ", ".join(f"{name} {version_of(name)}" for name in names)
        hint = f"{', '.join(absent)} not installed: pip install 'tidemill[{extra}]'"
        yield Finding(f"extra {extra}", "absent" if absent else "ok", hint if absent else detail)


def directories_found(settings: Configuration) -> Iterator[Finding]:
    """Check whether the directories of a configuration can be written and read."""
    for option in (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY):
        directory = settings.get(option)
        if directory is not None:
            yield checked(option.key, partial(_directory, directory, settings))


def checked(what: str, check: Callable[[], str]) -> Finding:
    """Run a check. Its detail is the text that the check returns, or its error message in one line."""
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
    """Create, read and delete a file in the directory, and check that the same name cannot be created twice.

    A local directory that does not exist is not created.
    """
    storage = storage_for(place, options=store_options(settings))
    if isinstance(storage, LocalStorage) and not storage.root.exists():
        parent = next(path for path in storage.root.absolute().parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise OSError(f"{storage.root} does not exist and cannot be created: no permission to write to {parent}")
        return f"{place} does not exist yet and can be created"
    name = f"doctor-{secrets.token_hex(8)}"
    try:
        storage.create(name, b"tidemill")
        created_once = _is_taken(storage, name) and storage.read(name) == b"tidemill"
        storage.delete([name])
    finally:
        storage.close()
    if not created_once:
        raise OSError(
            f"{place} allows creating a file that already exists: two drivers could commit the same epoch there. Store "
            "checkpoints in a file system or object store that supports exclusive creation of files"
        )
    return f"{place} can be written and read"


def _is_taken(storage: Storage, name: str) -> bool:
    try:
        storage.create(name, b"another driver")
    except AlreadyExistsError:
        return True
    return False
