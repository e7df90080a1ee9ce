"""Lists and opens the files of a source: on this machine, or in an object store."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from tidemill.common.configuration import Configuration
from tidemill.connectors.file_system.listing import FileListing, LocalListing, ObjectListing, local_root
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES, store_options
from tidemill.errors import ConfigurationError, LostInputError

__all__ = ["SourceFiles"]

#: Codecs by the end of a file's name, which Hadoop has and Python does not: their files must not be read as they are.
_UNKNOWN_CODECS: Final = (".deflate", ".lz4", ".snappy", ".zst")


class SourceFiles:
    """The files below one path."""

    def __init__(
        self, configuration: Configuration, path: str, accepts: Callable[[str], bool], *, recursive: bool
    ) -> None:
        """``accepts`` is a filter for file names. Raises :class:`ConfigurationError` for a path that needs Spark."""
        local = local_root(path)
        self.is_local = local is not None
        if local is not None:
            self.listing: FileListing = LocalListing(local, recursive=recursive, accepts=accepts)
        elif path.partition(":")[0].lower() in OBJECT_STORE_SCHEMES:
            self.listing = ObjectListing(path, store_options(configuration), recursive=recursive, accepts=accepts)
        else:
            raise ConfigurationError(
                f"execution.target: local cannot read {path}: it reads files of this machine and of object stores"
            )

    def all(self) -> list[str]:
        """Return the paths of all files, in order."""
        return sorted(file.path for file in self.listing.new_files(lambda path: False))

    def check_no_columns(self, path: str, root_depth: int) -> None:
        """Raise :class:`ConfigurationError` for a file in a directory whose name defines a column."""
        named = next((part for part in path.split("/")[root_depth:-1] if "=" in part), None)
        if named is not None:
            raise ConfigurationError(
                f"execution.target: local cannot read the column that the directory {named!r} of {path} defines: set "
                "recursiveFileLookup: true to read the files without it, or execution.target: spark"
            )

    def open(self, path: str, *, compressed: bool) -> BinaryIO:
        """Open a file; with ``compressed``, it is decompressed if its name says so.

        Raises :class:`~tidemill.errors.LostInputError` if it no longer exists.
        """
        try:
            raw: Any = Path(path).open("rb") if self.is_local else io.BytesIO(self._object(path))  # noqa: SIM115
        except FileNotFoundError as error:
            raise LostInputError(f"a file was deleted before it was read: {error}") from None
        name = path.lower()
        if not compressed:
            return cast("BinaryIO", raw)
        if name.endswith(_UNKNOWN_CODECS):
            raw.close()
            raise ConfigurationError(f"execution.target: local cannot decompress {path}: set execution.target: spark")
        if name.endswith(".gz"):
            return cast("BinaryIO", _Closing(gzip.GzipFile(fileobj=raw), raw))
        return cast("BinaryIO", _Closing(bz2.BZ2File(raw), raw)) if name.endswith(".bz2") else cast("BinaryIO", raw)

    def _object(self, path: str) -> bytes:
        return cast("ObjectListing", self.listing).read(path)

    def close(self) -> None:
        """Release the listing."""
        self.listing.close()


class _Closing(io.BufferedReader):
    """A decompressed file that closes the compressed one."""

    def __init__(self, decompressed: Any, compressed: Any) -> None:
        super().__init__(decompressed)
        self._compressed = compressed

    def close(self) -> None:
        super().close()
        self._compressed.close()
