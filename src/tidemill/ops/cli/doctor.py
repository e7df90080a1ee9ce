"""``tidemill doctor``: whether this machine has what jobs need, and what to do where it has not."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidemill.checkpoint.storage import LocalStorage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.common.exit_codes import ExitCode
from tidemill.config import CheckpointingOptions, RestOptions
from tidemill.errors import TidemillError
from tidemill.ops.access import ports_of
from tidemill.ops.cli.arguments import AsJson, ConfigFile, Defined, configured
from tidemill.ops.cli.drivers import records_directory
from tidemill.ops.cli.output import print_json, print_table

__all__ = ["EXTRAS", "PACKAGES", "Finding", "doctor"]

OLDEST_JAVA: Final = 17
#: What every job needs.
PACKAGES: Final = ("pyspark", "pyarrow", "cloudpickle", "numpy", "pyyaml", "rocksdict")
#: What some need: the packages of each extra.
EXTRAS: Final = {
    "avro": ("fastavro",),
    "kafka": ("confluent-kafka",),
    "object-store": ("obstore",),
    "ops": ("fastapi", "prometheus-client", "rich", "typer", "uvicorn"),
    "postgres": ("psycopg",),
}


@dataclass(frozen=True)
class Finding:
    """What was found about one thing: ``status`` is ok, absent (only some jobs need it) or problem."""

    what: str
    status: str
    detail: str


def doctor(
    with_spark: Annotated[
        bool,
        typer.Option("--spark", help="Also start a Spark session, run a task in it, and fetch the Kafka connector."),
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check what this machine has for jobs.

    That is Python, Java, Spark, packages, the Kafka connector, directories and ports. Directories are those of the
    configuration: execution.checkpointing.dir and execution.checkpointing.savepoint-dir.
    The exit code is 4 if there is a problem.
    """
    settings = configured(config, defined)
    found = list(_findings(settings, with_spark))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_table(("what", "status", "detail"), [(one.what, one.status, one.detail) for one in found])
    if any(one.status == "problem" for one in found):
        raise typer.Exit(ExitCode.UNFIT)


def _findings(settings: Configuration, with_spark: bool) -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{sys.version.split()[0]} ({sys.executable})")
    yield _java()
    for name in PACKAGES:
        found = _version(name)
        missing = f"pip install {name}"
        yield Finding(f"package {name}", "problem" if found is None else "ok", found or missing)
    for extra, names in EXTRAS.items():
        absent = [name for name in names if _version(name) is None]
        detail = ", ".join(f"{name} {_version(name)}" for name in names)
        hint = f"without {', '.join(absent)}: pip install 'tidemill[{extra}]'"
        yield Finding(f"extra {extra}", "absent" if absent else "ok", hint if absent else detail)
    for option in (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY):
        directory = settings.get(option)
        if directory is not None:
            yield _checked(option.key, partial(_directory, directory, settings))
    yield _checked("logs and records", lambda: str(records_directory()))
    yield _checked("REST port", lambda: _port(settings))
    if with_spark:
        yield from _spark(settings)
    else:
        yield _connector()


def _checked(what: str, check: Callable[[], str]) -> Finding:
    """What a check says, or what it raises, in one line."""
    try:
        return Finding(what, "ok", check())
    except (TidemillError, OSError) as error:
        return Finding(what, "problem", " ".join(str(error).split()))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    wanted = f"install Java {OLDEST_JAVA} or later, and set JAVA_HOME if it is not on the path"
    if program is None:
        return Finding("Java", "problem", f"{f'JAVA_HOME={home} has no bin/java' if home else 'not found'}: {wanted}")
    try:
        result = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", "problem", f"{program} cannot be run: {error}")
    told = re.search(r'version "(?:1\.)?(\d+)[^"]*"', result.stderr + result.stdout)
    if told is None or int(told[1]) < OLDEST_JAVA:
        return Finding("Java", "problem", f"{program} is {told[0] if told else 'of an unknown version'}: {wanted}")
    return Finding("Java", "ok", f"{told[0]} ({program})")


def _directory(place: str, settings: Configuration) -> str:
    """Write, read and delete a file there. A local directory that is not there is not made."""
    storage = storage_for(place, options=store_options(settings))
    if isinstance(storage, LocalStorage) and not storage.root.exists():
        parent = next(path for path in storage.root.absolute().parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise OSError(f"{storage.root} is not there, and cannot be made in {parent}: no permission to write")
        return f"{place} is not there yet, and can be made"
    name = f"doctor-{secrets.token_hex(8)}"
    try:
        storage.create(name, b"tidemill")
        storage.read(name)
        storage.delete([name])
    finally:
        storage.close()
    return f"{place} can be written and read"


def _port(settings: Configuration) -> str:
    bound = settings.contains(RestOptions.BIND_PORT) or not settings.contains(RestOptions.PORT)
    text = settings.get(RestOptions.BIND_PORT) if bound else str(settings.get(RestOptions.PORT))
    host = settings.get(RestOptions.BIND_ADDRESS) or "127.0.0.1"
    for port in ports_of(text, RestOptions.BIND_PORT.key):
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                return f"{host}:{port} is free"
        except OSError:
            continue
    raise OSError(f"no port of {text} on {host} is free: set rest.bind-port to another one, or a range")


def _connector() -> Finding:
    """Whether Spark's Kafka connector was fetched before; to fetch it takes a session."""
    what = "Kafka connector"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted(caches.glob(f"tidemill/spark-kafka-{_version('pyspark')}_*/spark-sql-kafka-*.jar"))
    if found:
        return Finding(what, "ok", str(found[-1]))
    return Finding(what, "absent", "not fetched yet: a job with a Kafka source fetches it, and so does --spark")


def _provided(session: Any) -> str:
    from tidemill.spark.kafka_jars import provide_connector

    provide_connector(session)
    return "on the class path of the session"


def _spark(settings: Configuration) -> Iterator[Finding]:
    if _version("pyspark") is None:
        return
    from tidemill.spark.session import session_for

    try:
        session, owned = session_for(settings)
    except Exception as error:
        yield Finding("Spark", "problem", f"no session: {' '.join(str(error).split())[:300]}")
        return
    try:
        try:
            pythons = session.sparkContext.parallelize([0], 1).map(lambda _: sys.version.split()[0]).collect()
            yield Finding("Spark", "ok", f"{session.version} at {session.sparkContext.master}, workers: {pythons[0]}")
        except Exception as error:
            yield Finding("Spark", "problem", f"a task failed: {' '.join(str(error).split())[:300]}")
        else:
            yield _checked("Kafka connector", partial(_provided, session))
    finally:
        if owned:
            session.stop()
