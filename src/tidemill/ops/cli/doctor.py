"""``tidemill doctor``: check whether this machine meets the requirements of jobs, and how to fix problems."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.common.configuration import Configuration
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.config import RestOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.access import ports_of
from tidemill.ops.cli.arguments import REST_PORTS, AsJson, ConfigFile, Defined, configured
from tidemill.ops.cli.output import print_json, print_table
from tidemill.ops.drivers.records import records_directory
from tidemill.ops.findings import Finding, checked, directories_found, packages_found, version_of
from tidemill.spark.session.java import find_java

__all__ = ["doctor"]


def doctor(
    with_spark: Annotated[
        bool,
        typer.Option("--spark", help="Also start a Spark session, run a task in it, and download the Kafka connector."),
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check whether this machine can run jobs.

    Checks Python, Java, Spark, packages, the Kafka connector, directories and ports. The directories are those of the
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
    yield from packages_found()
    yield from directories_found(settings)
    yield checked("logs and records", lambda: str(records_directory()))
    yield checked("REST port", lambda: _port(settings))
    if with_spark:
        yield from _spark(settings)
    else:
        yield _connector()


def _java() -> Finding:
    try:
        java = find_java()
    except ConfigurationError as error:
        return Finding("Java", "problem", str(error))
    return Finding("Java", "ok", f"{java.version} ({java.program})")


def _port(settings: Configuration) -> str:
    if settings.contains(RestOptions.BIND_PORT):
        text = settings.get(RestOptions.BIND_PORT)
    else:
        text = str(settings.get(RestOptions.PORT)) if settings.contains(RestOptions.PORT) else REST_PORTS
    host = settings.get(RestOptions.BIND_ADDRESS) or "127.0.0.1"
    for port in ports_of(text, RestOptions.BIND_PORT.key):
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                return f"{host}:{port} is free"
        except OSError:
            continue
    raise OSError(f"no port of {text} on {host} is free: set rest.bind-port to another one, or a range")


def _connector() -> Finding:
    """Check whether Spark's Kafka connector was downloaded before. Downloading it requires a session."""
    what = "Kafka connector"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted(caches.glob(f"tidemill/spark-kafka-{version_of('pyspark')}_*/spark-sql-kafka-*.jar"))
    if found:
        return Finding(what, "ok", str(found[-1]))
    return Finding(what, "absent", "not downloaded yet: a job with a Kafka source downloads it, and so does --spark")


def _provided(session: Any) -> str:
    from tidemill.spark.kafka.jars import provide_connector

    provide_connector(session)
    return "on the class path of the session"


def _spark(settings: Configuration) -> Iterator[Finding]:
    if version_of("pyspark") is None:
        return
    from tidemill.spark.session.session_lease import SessionLease

    try:
        lease = SessionLease(settings)
    except Exception as error:
        yield Finding("Spark", "problem", f"no session: {' '.join(str(error).split())[:300]}")
        return
    session = lease.session
    try:
        try:
            pythons = session.sparkContext.parallelize([0], 1).map(lambda _: sys.version.split()[0]).collect()
            yield Finding("Spark", "ok", f"{session.version} at {session.sparkContext.master}, workers: {pythons[0]}")
        except Exception as error:
            yield Finding("Spark", "problem", f"a task failed: {' '.join(str(error).split())[:300]}")
        else:
            yield checked("Kafka connector", partial(_provided, session))
    finally:
        lease.release()
