"""Archives, requirements and directories of Python code, from the driver to where functions run.

1. The driver packs them (:func:`pack`): each becomes one file, whose name is unique for its content.
2. The engine brings the files to the machines of the workers.
3. Each worker asks for them before it loads the functions of a job (:func:`install`). The first one on a machine
   unpacks and installs, under a lock; the others wait for it and find the result.
4. The worker makes them available to functions (:meth:`Installed.use`).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Final

from tidemill.datastream.program.dependencies import Dependencies, Requirements, local_path
from tidemill.errors import ConfigurationError

__all__ = ["Installed", "Packed", "Shipment", "directories", "install", "pack"]

_REQUIREMENTS: Final = "requirements.txt"
_CACHE: Final = "cache"
_PIP: Final = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
#: How much of pip's output an error shows.
_SHOWN: Final = 2000
#: Bytes of a file that are read at a time, for its digest.
_PART: Final = 1 << 20


class Use(Enum):
    """What a worker does with a file."""

    ARCHIVE = "archive"
    CODE = "code"
    REQUIREMENTS = "requirements"


@dataclass(frozen=True)
class Item:
    """One file. ``name`` contains the digest of its content; ``target`` is the directory of an archive."""

    name: str
    kind: Use
    target: str = ""


@dataclass(frozen=True)
class Shipment:
    """What workers need before they run the functions of a job. It is part of the job's bundle."""

    items: tuple[Item, ...] = ()

    @property
    def name(self) -> str:
        """A name that differs for other files and for other targets."""
        text = "\n".join(f"{item.kind.value} {item.name} {item.target}" for item in self.items)
        return f"dependencies-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Packed:
    """A delivery, and the files on the driver, by name."""

    delivery: Shipment = field(default_factory=Shipment)
    files: Mapping[str, Path] = field(default_factory=dict)
    folder: Path = Path()


@dataclass(frozen=True)
class Installed:
    """The result on one machine. ``directory`` is the working directory of functions; None if it does not change."""

    directory: Path | None = None
    imports: tuple[Path, ...] = ()

    def use(self) -> None:
        """Let functions of this process import the code and the packages. They have precedence over others."""
        new = [str(path) for path in self.imports if str(path) not in sys.path]
        if new:
            sys.path[:0] = new
            importlib.invalidate_caches()


# --- on the driver


def pack(dependencies: Dependencies, in_folder: Callable[[], Path]) -> Packed:
    """Pack what cannot be sent as it is into files below a folder; an archive is copied there.

    ``in_folder`` is called only if there is something to pack. A file that exists there is not written again: jobs that
    run at the same time may share the folder. A single Python file or zip is not part of a delivery: engines add those
    to the import path themselves.
    """
    if not (dependencies.archives or dependencies.requirements or directories(dependencies.files)):
        return Packed()
    folder = in_folder()
    folder.mkdir(parents=True, exist_ok=True)
    items: list[Item] = []
    files: dict[str, Path] = {}

    def add(source: Path, kind: Use, digest: str, target: str = "") -> None:
        item = Item(f"{digest[:16]}-{source.name}", kind, target)
        items.append(item)
        files[item.name] = folder / item.name
        if not files[item.name].exists():
            _copy(source, files[item.name])

    for path in directories(dependencies.files).values():
        add(*_zipped(path.absolute(), folder, [(file, file.relative_to(path)) for file in _files_in(path)], Use.CODE))
    if dependencies.requirements is not None:
        given = _requirement_files(dependencies.requirements)
        add(*_zipped(Path(_REQUIREMENTS), folder, given, Use.REQUIREMENTS))
    for archive in dependencies.archives:
        source = local_path(archive.path, "archive")
        add(source, Use.ARCHIVE, _digest([(source, PurePosixPath(source.name))]), archive.target)
    return Packed(Shipment(tuple(items)), files, folder)


def directories(files: Iterable[str]) -> dict[str, Path]:
    """Those of the Python files that are directories of this machine, by what they are given as."""
    return {file: path for file in files if (path := Path(file.removeprefix("file://"))).is_dir()}


def _files_in(directory: Path) -> list[Path]:
    return sorted(file for file in directory.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _requirement_files(requirements: Requirements) -> list[tuple[Path, PurePosixPath]]:
    found = [(local_path(requirements.file, "requirements file"), PurePosixPath(_REQUIREMENTS))]
    if requirements.cache is not None:
        cache = local_path(requirements.cache, "directory of cached packages")
        found += [(file, PurePosixPath(_CACHE) / file.relative_to(cache)) for file in _files_in(cache)]
    return found


def _zipped(
    source: Path, folder: Path, files: list[tuple[Path, Path]] | list[tuple[Path, PurePosixPath]], kind: Use
) -> tuple[Path, Use, str]:
    """Zip files; the digest is that of the files, because a zip differs each time."""
    digest = _digest(files)
    packed = folder / digest / f"{source.name}.zip"
    if not packed.exists():
        packed.parent.mkdir(exist_ok=True)
        draft = packed.with_suffix(f".{uuid.uuid4().hex}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as target:
            for file, name in files:
                target.write(file, str(name))
        draft.rename(packed)
    return packed, kind, digest


def _digest(files: Iterable[tuple[Path, object]]) -> str:
    digest = hashlib.sha256()
    for file, name in files:
        with file.open("rb") as stream:
            content = hashlib.sha256()
            while part := stream.read(_PART):
                content.update(part)
        digest.update(f"{name}\n{content.hexdigest()}\n".encode())
    return digest.hexdigest()


def _copy(source: Path, place: Path) -> None:
    """A link would change with the file that it leads to, under the digest of what it was."""
    draft = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
    shutil.copyfile(source, draft)
    draft.rename(place)


# --- where functions run


def install(delivery: Shipment, fetch: Callable[[str], Path], root: Path) -> Installed:
    """Unpack and install a delivery below ``root``, unless that has been done. ``fetch`` finds the files by name.

    Processes that share ``root`` wait for each other. Raises :class:`ConfigurationError` if packages cannot be
    installed; the next call tries again.
    """
    if not delivery.items:
        return Installed()
    root.mkdir(parents=True, exist_ok=True)
    place = root / delivery.name
    with _locked(root / f"{delivery.name}.lock"):
        if not place.exists():
            draft = root / f"{delivery.name}.draft"
            shutil.rmtree(draft, ignore_errors=True)
            for item in delivery.items:
                _install(item, fetch(item.name), draft)
            draft.rename(place)
    imports = [_import_path(item, place) for item in delivery.items if item.kind is not Use.ARCHIVE]
    works = any(item.kind is Use.ARCHIVE for item in delivery.items)
    return Installed(_working_directory(place) if works else None, tuple(path for path in imports if path.is_dir()))


def _working_directory(place: Path) -> Path:
    return place / "work"


def _import_path(item: Item, place: Path) -> Path:
    return place / item.kind.value / item.name


def _install(item: Item, file: Path, draft: Path) -> None:
    if item.kind is Use.ARCHIVE:
        _unpack(file, _working_directory(draft) / item.target)
    elif item.kind is Use.CODE:
        _unpack(file, _import_path(item, draft))
    else:
        unpacked = draft / "requirements-files"
        _unpack(file, unpacked)
        _install_packages(unpacked, _import_path(item, draft))
        shutil.rmtree(unpacked)


def _unpack(file: Path, target: Path) -> None:
    """Unpack a zip or tar file, with the permissions of its files."""
    target.mkdir(parents=True, exist_ok=True)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as source:
            for member in source.infolist():
                place = Path(source.extract(member, target))
                mode = member.external_attr >> 16 & 0o777
                if mode and not member.is_dir():
                    place.chmod(mode | 0o600)
        return
    with tarfile.open(file) as packed:
        # Environments contain links to interpreters elsewhere, which the stricter filter of newer versions refuses.
        packed.extraction_filter = lambda member, path: member
        for entry in packed:
            name = PurePosixPath(entry.name)
            if name.is_absolute() or ".." in name.parts:
                raise ConfigurationError(f"the archive {file.name} contains {entry.name}, which is outside of it")
            packed.extract(entry, target)


def _install_packages(files: Path, target: Path) -> None:
    """Install what the interpreter of this process does not have. With a directory of packages, no network is used."""
    requirements, cache = files / _REQUIREMENTS, files / _CACHE
    listed = ["--requirement", str(requirements)]
    if _pip(["--dry-run", "--no-index", *listed]).returncode == 0:
        return
    source = ["--no-index", "--find-links", str(cache)] if cache.is_dir() else []
    ended = _pip(["--target", str(target), *source, *listed])
    if ended.returncode != 0:
        where = "from the directory of cached packages" if source else "without a directory of cached packages"
        raise ConfigurationError(
            f"the requirements cannot be installed {where} for {sys.executable}: pip ended with code "
            f"{ended.returncode}.\n{ended.stdout[-_SHOWN:].strip()}"
        )


def _pip(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # The path of this process must not be searched for pip and its parts.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(  # noqa: S603 - pip of this interpreter
        [sys.executable, *_PIP, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
