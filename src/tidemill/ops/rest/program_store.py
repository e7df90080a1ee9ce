"""The programs that clients have uploaded: each in a directory of its own, below one that is their user's alone.

The names of these directories are made here. What a client calls its file is only shown; of a zip, names of files
become paths below its directory, after a look at each of them.
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
#: Of a zip, unpacked.
MOST_FILES: Final = 2000
MOST_BYTES: Final = 200 << 20

_SCRIPT: Final = "program.py"
_ARCHIVE: Final = "program.zip"
#: What is known of a program; who has a lock on it has the program.
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
        """The directory of its files."""
        return self.folder / "code"

    @property
    def archive(self) -> Path | None:
        """The zip that it came as, None for a script."""
        path = self.folder / _ARCHIVE
        return path if path.exists() else None

    @property
    def entry(self) -> str | None:
        """What runs if nothing is said: the script, ``__main__.py`` of a zip, or the only script in its root."""
        scripts = sorted(path.name for path in self.code.glob("*.py"))
        if "__main__.py" in scripts:
            return "__main__.py"
        return scripts[0] if len(scripts) == 1 else None

    def named(self, entry: str | None) -> str:
        """The program as ``tidemill run`` names it: the path of a script of it, or ``module:function``.

        Raises :class:`BadRequestError` if it has no such script, or several and none is named.
        """
        entry = entry or self.entry
        if entry is None:
            raise BadRequestError(
                "entryClass: the zip has no script in its root, or several: name one, or a module:function"
            )
        if _FUNCTION.fullmatch(entry):
            return entry
        # Looked up among the files that there are: what was named never becomes a path.
        scripts = {path.relative_to(self.code).as_posix(): path for path in self.code.rglob("*.py")}
        if entry not in scripts:
            raise BadRequestError(f"entryClass: {self.name} has no script {entry!r}; or name a module:function")
        return str(scripts[entry])


class ProgramStore:
    """The programs below a directory. Several processes may use it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def all(self) -> list[StoredProgram]:
        """All of them, newest first."""
        if not self._root.is_dir():
            return []
        found = [_read(path) for path in self._root.iterdir() if not path.name.startswith(".")]
        return sorted((one for one in found if one is not None), key=lambda one: (-one.uploaded, one.id))

    def get(self, program_id: str) -> StoredProgram:
        """The program of an id. Raises :class:`ResourceNotFoundError`."""
        for program in self.all():
            if program.id == program_id:
                return program
        raise ResourceNotFoundError(f"there is no program {program_id}; /jars lists them")

    def add(self, name: str, content: IO[bytes]) -> StoredProgram:
        """Keep a script, or a zip of them, whole or not at all.

        Raises :class:`BadRequestError` for what is neither, :class:`ConflictError` if there are too many.
        """
        if _NAME.fullmatch(name) is None:
            raise BadRequestError("jarfile: a program is a file NAME.py or NAME.zip, with a plain and short name")
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
        """While the block runs, the program stays, whichever process wants to delete it; ``alone``: nobody else has it.

        Raises :class:`ResourceNotFoundError` if it is gone, :class:`ConflictError` if others have what is wanted alone.
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
                raise ConflictError("the program is being started, or looked at: wait for that") from None
            if not program.folder.exists():  # who had it before has deleted it
                raise gone
            yield
        finally:
            os.close(lock)

    def remove(self, program: StoredProgram) -> None:
        """Delete a program, which the caller holds alone."""
        unfinished = self._root / f".{program.id}"
        try:
            program.folder.rename(unfinished)  # at once, for all who look
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
        return None  # gone meanwhile, or no program


def _check_script(path: Path) -> None:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if not text.strip() or "\0" in text:
        raise BadRequestError("jarfile: a NAME.py must be Python in UTF-8")


def _write(source: IO[bytes], path: Path, most: int = MOST_BYTES) -> int:
    """Copy a file to a path where nothing is yet; its size. Raises :class:`BadRequestError` if it has more bytes."""
    size = 0
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise BadRequestError(f"jarfile: it has more than {MOST_BYTES} bytes, unpacked")
            target.write(chunk)
    return size


def _unpack(content: IO[bytes], folder: Path) -> None:
    """Write the files of a zip below a directory, which has nothing yet."""
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
        told = error.strerror if isinstance(error, OSError) else error  # not with its path
        raise BadRequestError(f"jarfile: the zip cannot be unpacked: {told}") from error


def _checked(entry: zipfile.ZipInfo) -> PurePosixPath:
    """The relative path of an entry. Raises :class:`BadRequestError` for what is no plain file, or leads elsewhere."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & _ENCRYPTED:
        raise BadRequestError("jarfile: the zip may have plain files only: no links, nothing encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadRequestError("jarfile: the zip must be compressed by 'deflate', or not at all")
    # The name as it stands in the zip: zipfile has cut off what is behind a NUL, and turned separators.
    parts = entry.orig_filename.removesuffix("/").split("/")
    if len(parts) > 30 or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise BadRequestError("jarfile: the zip has a file whose name leads elsewhere, or is no plain one")
    return PurePosixPath(*parts)
