"""The programs that clients have uploaded: each in a separate directory, in one that only this user can access.

The names of these directories are generated here. The file name that a client sends is only displayed. The names of
the files in a zip become paths in the program's directory, after each of them has been validated.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from tidemill.ops.rest.errors import BadRequestError, ConflictError, ResourceNotFoundError

__all__ = ["ProgramStore", "StoredProgram"]

VERSION: Final = 1
MOST_PROGRAMS: Final = 50
#: Limits of an unpacked zip.
MOST_FILES: Final = 2000
MOST_BYTES: Final = 200 << 20

_SCRIPT: Final = "program.py"
_ARCHIVE: Final = "program.zip"
#: Metadata of a program. A lock on this file is a lock on the program.
_ABOUT: Final = "about.json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}\.(py|zip)")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_PART: Final = re.compile(r"[^\x00-\x1f\x7f\\:]{1,200}")
_CHUNK: Final = 1 << 20
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True)
class StoredProgram:
    """A program; ``uploaded`` is in milliseconds since 1970."""

    id: str
    name: str
    uploaded: int
    folder: Path

    @property
    def code(self) -> Path:
        """The directory with the files of the program."""
        return self.folder / "code"

    @property
    def archive(self) -> Path | None:
        """The uploaded zip, or None for a script."""
        path = self.folder / _ARCHIVE
        return path if path.exists() else None

    @property
    def entry(self) -> str | None:
        """The default entry point: the script, ``__main__.py`` of a zip, or the only script in the root of a zip."""
        scripts = sorted(path.name for path in self.code.glob("*.py"))
        if "__main__.py" in scripts:
            return "__main__.py"
        return scripts[0] if len(scripts) == 1 else None

    def named(self, entry: str | None) -> str:
        """Return the program argument for ``tidemill run``: the path of one of its scripts, or ``module:function``.

        Raises :class:`BadRequestError` if there is no such script, or if there are several and none is specified.
        """
        entry = entry or self.entry
        if entry is None:
            raise BadRequestError(
                "entryClass: the root of the zip has no script, or several: specify one, or a module:function"
            )
        if _FUNCTION.fullmatch(entry):
            return entry
        # Looked up among the existing files, so that the client's input is never used as a path.
        scripts = {path.relative_to(self.code).as_posix(): path for path in self.code.rglob("*.py")}
        if entry not in scripts:
            raise BadRequestError(f"entryClass: {self.name} has no script {entry!r}; specify one, or a module:function")
        return str(scripts[entry])


class ProgramStore:
    """The programs in a directory. Several processes may use it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def all(self) -> list[StoredProgram]:
        """Return all programs, newest first."""
        if not self._root.is_dir():
            return []
        found = [_read(path) for path in self._root.iterdir() if not path.name.startswith(".")]
        return sorted((one for one in found if one is not None), key=lambda one: (-one.uploaded, one.id))

    def get(self, program_id: str) -> StoredProgram:
        """Return the program with an id. Raises :class:`ResourceNotFoundError`."""
        for program in self.all():
            if program.id == program_id:
                return program
        raise ResourceNotFoundError(f"there is no program {program_id}; /jars lists them")

    def add(self, name: str, content: IO[bytes]) -> StoredProgram:
        """Store a script, or a zip of scripts, atomically.

        Raises :class:`BadRequestError` if it is neither, :class:`ConflictError` if there are too many programs.
        """
        if _NAME.fullmatch(name) is None:
            raise BadRequestError("jarfile: a program must be a file NAME.py or NAME.zip, with a short and simple name")
        if len(self.all()) >= MOST_PROGRAMS:
            raise ConflictError(f"there are {MOST_PROGRAMS} programs already: delete some")
        program = StoredProgram(secrets.token_hex(16), name, time.time_ns() // 1_000_000, self._root)
        unfinished = self._root / f".{program.id}"
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        try:
            code = unfinished / "code"
            code.mkdir()
            if name.endswith(".zip"):
                _unpack(content, code)
                content.seek(0)
                _write(content, unfinished / _ARCHIVE)
            else:
                _write(content, code / _SCRIPT)
                _check_script(code / _SCRIPT)
            about = {"version": VERSION, "name": name, "uploaded": program.uploaded}
            (unfinished / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
            unfinished.replace(self._root / program.id)
        except BaseException:
            shutil.rmtree(unfinished)
            raise
        return self.get(program.id)

    @contextmanager
    def held(self, program: StoredProgram, *, alone: bool = False) -> Iterator[None]:
        """Lock the program while the block runs, so that no process deletes it; ``alone`` makes the lock exclusive.

        Raises :class:`ResourceNotFoundError` if the program was deleted, and :class:`ConflictError` if an exclusive
        lock is not available.
        """
        gone = ResourceNotFoundError(f"there is no program {program.id}; /jars lists them")
        try:
            lock = os.open(program.folder / _ABOUT, os.O_RDONLY)
        except FileNotFoundError:
            raise gone from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
            except BlockingIOError:
                raise ConflictError("the program is in use by another request: try again later") from None
            if not program.folder.exists():  # the previous holder of the lock has deleted it
                raise gone
            yield
        finally:
            os.close(lock)

    def remove(self, program: StoredProgram) -> None:
        """Delete a program. The caller must hold the exclusive lock."""
        unfinished = self._root / f".{program.id}"
        try:
            program.folder.rename(unfinished)  # it disappears atomically
        except FileNotFoundError:
            return
        shutil.rmtree(unfinished)


def _read(folder: Path) -> StoredProgram | None:
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about["version"] != VERSION:
            return None
        return StoredProgram(folder.name, about["name"], about["uploaded"], folder)
    except (OSError, ValueError, KeyError):
        return None  # deleted meanwhile, or not a program


def _check_script(path: Path) -> None:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if not text.strip() or "\0" in text:
        raise BadRequestError("jarfile: a NAME.py file must contain Python code in UTF-8")


def _write(source: IO[bytes], path: Path, most: int = MOST_BYTES) -> int:
    """Copy to a new file and return its size. Raises :class:`BadRequestError` if it exceeds ``most`` bytes."""
    size = 0
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise BadRequestError(f"jarfile: it has more than {MOST_BYTES} bytes, unpacked")
            target.write(chunk)
    return size


def _unpack(content: IO[bytes], folder: Path) -> None:
    """Write the files of a zip to an empty directory."""
    try:
        with zipfile.ZipFile(content) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_FILES:
                raise BadRequestError(f"jarfile: it has more than {MOST_FILES} files")
            left = MOST_BYTES
            for entry in entries:
                target = folder / _checked(entry)
                if entry.is_dir():
                    target.mkdir(mode=0o700, parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with archive.open(entry) as file:
                    left -= _write(file, target, left)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        told = error.strerror if isinstance(error, OSError) else error  # without the path
        raise BadRequestError(f"jarfile: the zip cannot be unpacked: {told}") from error


def _checked(entry: zipfile.ZipInfo) -> PurePosixPath:
    """Return the relative path of an entry.

    Raises :class:`BadRequestError` if the entry is not a regular file or directory, or if its path leads outside.
    """
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & _ENCRYPTED:
        raise BadRequestError("jarfile: the zip may contain regular files only: no links, no encrypted files")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadRequestError("jarfile: the zip must be compressed with 'deflate', or uncompressed")
    # The original name in the zip, because zipfile truncates a name at a NUL and converts separators.
    parts = entry.orig_filename.removesuffix("/").split("/")
    if len(parts) > 30 or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise BadRequestError("jarfile: the zip contains a file with an invalid name, or one that leads outside")
    return PurePosixPath(*parts)
