"""Provides Spark's Kafka connector, which is not part of Spark, for the running version; fetched once per machine.

A connector that is already on the class path (``--packages``, ``spark.jars``) is used as is. Otherwise Ivy, which is
part of Spark, fetches it. It is then added to the class path of the running driver and sent to its executors. ``ADD
JAR`` is not sufficient: it loads classes again for every session, and some of these must be loaded only once in a
process.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemill.errors import ConfigurationError

log = logging.getLogger(__name__)

#: A class of the connector.
_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_FETCH_SECONDS: Final = 300
#: The organizations whose modules are already on Spark's class path.
_OF_SPARK: Final = (
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.apache.hadoop",
    "org.slf4j",
    "org.xerial.snappy",
    "org.lz4",
    "at.yawk.lz4",
    "com.google.code.findbugs",
)

#: Spark's class loader for the classes of a program. It is the parent of the class loaders of all sessions, and of
#: executors in the same process. Each class of the connector must be loaded only once, because some register
#: themselves.
_LOADER: Final = "org.apache.spark.util.MutableURLClassLoader"

_adding = threading.Lock()


def provide_connector(session: SparkSession) -> None:
    """Make Spark's Kafka source available to the session and its executors, and Kafka's own client to the driver.

    Raises :class:`ConfigurationError` if the connector is neither on the class path nor can be fetched. The message
    describes what to do.
    """
    jvm: Any = session._jvm
    context: Any = session.sparkContext
    with _adding:
        origin = _origin(jvm)
        if origin is not None and _cache() not in origin.parents:
            return  # the user has put it on the class path, which includes that of the executors
        jars = connector_jars(session) if origin is None else sorted(origin.parent.glob("*.jar"))
        if origin is None:
            loader = _program_loader(jvm)
            if loader is None:
                raise _missing(session, "the class path of this Spark cannot be extended")
            for jar in jars:
                loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        added = str(context._jsc.sc().listJars())
        for jar in jars:
            if jar.name not in added:
                context._jsc.addJar(str(jar))


def _origin(jvm: Any) -> Path | None:
    """Return the jar that the connector's classes come from, or None if they are not on the class path."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = jvm.java.lang.Class.forName(_PROVIDER, False, loader)
    except Py4JJavaError:
        return None
    return Path(str(found.getProtectionDomain().getCodeSource().getLocation().getPath()))


def _program_loader(jvm: Any) -> Any:
    """Return the class loader of the program, which is the root of the session's own class loaders."""
    loader, found = jvm.java.lang.Thread.currentThread().getContextClassLoader(), None
    while loader is not None:
        if loader.getClass().getName() == _LOADER:
            found = loader
        loader = loader.getParent()
    return found


def connector_jars(session: SparkSession) -> list[Path]:
    """Return the connector for the session's Spark and its dependencies, in the cache of the current user."""
    scala = _scala(session)
    folder = _cache() / f"spark-kafka-{session.version}_{scala}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(folder.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # programs may start at the same time
            if not folder.is_dir():
                _fetch(session, scala, folder)
    return sorted(folder.glob("*.jar"))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"


def _fetch(session: SparkSession, scala: str, folder: Path) -> None:
    jvm: Any = session._jvm
    incomplete = folder.with_name(folder.name + ".incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    incomplete.mkdir()
    wanted = incomplete / "ivy.xml"
    wanted.write_text(wanted_modules(session.version, scala), encoding="utf-8")
    ivy = jvm.java.lang.Class.forName("org.apache.ivy.Main").getProtectionDomain().getCodeSource().getLocation()
    command = [f"{jvm.java.lang.System.getProperty('java.home')}/bin/java", "-jar", str(ivy.getPath()), "-warn"]
    settings = session.sparkContext.getConf().get("spark.jars.ivySettings")
    command += ["-settings", str(settings)] if settings else []
    command += ["-ivy", str(wanted), "-retrieve", f"{incomplete}/[artifact]-[revision].[ext]"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)  # noqa: S603
        told = result.stdout + result.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        told = str(error)
    found = sorted(jar.stem for jar in incomplete.glob("spark-sql-kafka-*.jar"))
    if not found or not list(incomplete.glob("kafka-clients-*.jar")):
        raise _missing(session, f"Ivy could not fetch it:\n{told.strip()[-1500:]}")
    wanted.unlink()
    incomplete.rename(folder)
    log.info("fetched %s for Spark %s into %s", found[0], session.version, folder)


def _missing(session: SparkSession, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Spark's Kafka connector is not on the class path. Start the program with --packages "
        f"org.apache.spark:spark-sql-kafka-0-10_{_scala(session)}:{session.version}, or list its jars and that of "
        f"kafka-clients in the option spark.jars. It could not be added automatically: {why}"
    )


def _scala(session: SparkSession) -> str:
    jvm: Any = session._jvm
    return ".".join(str(jvm.scala.util.Properties.versionNumberString()).split(".")[:2])


def wanted_modules(spark: str, scala: str) -> str:
    """Return the request to Ivy: the newest version of each module that is not newer than Spark, of the same major.

    Usually that is exactly the version of Spark. If a mirror does not have it yet, or only in part, an older connector
    works as well.
    """
    major = spark.partition(".")[0]
    versions = f"[{major}.0,{spark}]"
    excluded = "".join(f'<exclude org="{org}"/>' for org in _OF_SPARK)
    excluded += f'<exclude org="org.apache.spark" module="spark-tags_{scala}"/>'
    tokens = f'org="org.apache.spark" module="spark-token-provider-kafka-0-10_{scala}"'
    return (
        '<ivy-module version="2.0"><info organisation="tidemill" module="spark-kafka"/>'
        '<configurations><conf name="default"/></configurations><dependencies defaultconf="default->default">'
        f'<dependency org="org.apache.spark" name="spark-sql-kafka-0-10_{scala}" rev="{versions}"/>'
        f'{excluded}<override {tokens} rev="{versions}"/></dependencies></ivy-module>'
    )
