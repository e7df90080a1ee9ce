"""Archives, packages and Python files for tests of what functions need where they run."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

#: The package that :func:`wheel` creates. No environment has it.
PACKAGE = "tidemill_sample_package"


def zip_of(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as target:
        for name, text in files.items():
            target.writestr(name, text)
    return path


def tar_of(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as target:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            target.addfile(entry, io.BytesIO(text.encode()))
    return path


def wheel(folder: Path, version: str = "1.0") -> Path:
    """A wheel with a package whose ``VERSION`` is its version."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{PACKAGE}-{version}.dist-info"
    files = {
        f"{PACKAGE}/__init__.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    return zip_of(folder / f"{PACKAGE}-{version}-py3-none-any.whl", {**files, f"{info}/RECORD": record})


def requirements(folder: Path, version: str = "1.0") -> tuple[Path, Path]:
    """A requirements file for that package, and a directory that has it."""
    wheel(folder / "cache", version)
    file = folder / "requirements.txt"
    file.write_text(f"{PACKAGE}=={version}\n")
    return file, folder / "cache"
