"""Spark's Kafka connector, which is no part of Spark: found for the running version, fetched once per machine.

Whoever has put it on the class path (``--packages``, ``spark.jars``) keeps what they have. Else Ivy, which is part of
Spark, fetches it, and it is added to the class path of the driver while that runs, and sent to its executors. ``ADD
JAR`` would not do: it loads classes anew for every session, and some of these can be there only once in a process.
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
#: Whose modules Spark itself has on its class path.
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

#: Spark's loader of the classes of a program. It is the parent of those of all sessions, and of executors in the same
#: process: each class of the connector must be there once, since some register themselves.
_LOADER: Final = "org.apache.spark.util.MutableURLClassLoader"

_adding = threading.Lock()


def provide_connector(session: SparkSession) -> None:
    """Let the session and its executors know Spark's Kafka source, and the driver Kafka's own client.

    Raises :class:`ConfigurationError` if the connector is neither there nor to be had; the message says what to do.
    """
    jvm: Any = session._jvm
    context: Any = session.sparkContext
    with _adding:
        origin = _origin(jvm)
        if origin is not None and _cache() not in origin.parents:
            return  # whoever has put it on the class path has done so for executors too
        jars = connector_jars(session) if origin is None else sorted(origin.parent.glob("*.jar"))
        if origin is None:
            loader = _program_loader(jvm)
            if loader is None:
                raise _missing(session, "the class path of this Spark cannot be added to")
            for jar in jars:
                loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        added = str(context._jsc.sc().listJars())
        for jar in jars:
            if jar.name not in added:
                context._jsc.addJar(str(jar))


def _origin(jvm: Any) -> Path | None:
    """The jar that the connector's classes are from; None if there are none."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = jvm.java.lang.Class.forName(_PROVIDER, False, loader)
    except Py4JJavaError:
        return None
    return Path(str(found.getProtectionDomain().getCodeSource().getLocation().getPath()))


def _program_loader(jvm: Any) -> Any:
    """The loader of the classes of the program: the one that the session's own begin with."""
    loader, found = jvm.java.lang.Thread.currentThread().getContextClassLoader(), None
    while loader is not None:
        if loader.getClass().getName() == _LOADER:
            found = loader
        loader = loader.getParent()
    return found


def connector_jars(session: SparkSession) -> list[Path]:
    """The connector for the session's Spark and what it needs, in the cache of this machine's user."""
    scala = _scala(session)
    folder = _cache() / f"spark-kafka-{session.version}_{scala}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(folder.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # programs start side by side
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
        f"org.apache.spark:spark-sql-kafka-0-10_{_scala(session)}:{session.version}, or name its jars and that of "
        f"kafka-clients in the option spark.jars. By itself it could not be put there: {why}"
    )


def _scala(session: SparkSession) -> str:
    jvm: Any = session._jvm
    return ".".join(str(jvm.scala.util.Properties.versionNumberString()).split(".")[:2])


def wanted_modules(spark: str, scala: str) -> str:
    """What Ivy is asked for: of each module the newest version that is not newer than Spark, of the same major.

    The very version of Spark is among them as a rule; where a mirror does not have it yet, or has it in part, an older
    connector works as well.
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
