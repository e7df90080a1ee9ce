"""Jars of Java servers for tests: fetched once, into the cache folder of the project, by the Ivy in pyspark."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tests.java import CACHE


def fetched_jars(name: str, modules: Mapping[tuple[str, str], str]) -> Path:
    """The folder with some modules, by organisation and name, and all that they need; the first call fetches them."""
    folder = CACHE / name
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not folder.is_dir():
            _fetch(folder, modules)
    return folder


def _fetch(folder: Path, modules: Mapping[tuple[str, str], str]) -> None:
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    incomplete = folder.with_name(folder.name + ".incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    incomplete.mkdir()
    wanted = CACHE / f"{folder.name}.xml"
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default"/>'
        for (org, name), version in modules.items()
    )
    wanted.write_text(
        '<ivy-module version="2.0"><info organisation="tidemill" module="tests"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    pattern = f"{incomplete}/[artifact]-[revision].[ext]"
    ivy = f"{Path(spark.origin).parent}/jars/*"
    command = ["java", "-cp", ivy, "org.apache.ivy.Main", "-warn", "-ivy", str(wanted), "-retrieve", pattern]
    result = subprocess.run([*command, "-types", "jar", "bundle"], capture_output=True, text=True, check=False)
    missing = [name for _, name in modules if not list(incomplete.glob(f"{name}-*.jar"))]
    if result.returncode or missing:
        raise RuntimeError(
            f"the jars {folder.name} could not be fetched with Ivy (is Maven Central in reach? a mirror can be "
            f"named in Ivy's settings):\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        )
    incomplete.rename(folder)
