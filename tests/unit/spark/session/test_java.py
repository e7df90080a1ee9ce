"""Java is found, or its absence is reported in a sentence, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import ConfigurationError
from tidemill.spark.session.java import check_java, find_java


def java(home: Path, version: str, *, released: bool) -> Path:
    """An installation, whose version is in its file, or only printed."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    program.chmod(0o755)
    if released:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        program.write_text("#!/bin/sh\nexit 1\n")
    return home


@pytest.mark.parametrize("released", [True, False])
def test_the_version_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, released: bool) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "21.0.2", released=released)))
    assert find_java().version == "21.0.2"
    assert find_java().program == str(tmp_path / "bin" / "java")
    check_java()


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402"])
def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, released: bool) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version, released=released)))
    with pytest.raises(ConfigurationError) as caught:
        check_java()
    assert str(caught.value) == (
        f"Spark needs Java 17, but {tmp_path}/bin/java is Java {version}: install Java 17 or later, and set JAVA_HOME "
        "if it is not in PATH"
    )


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"JAVA_HOME={tmp_path} has no bin/java: install"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="Java is not found: install"):
        check_java()
