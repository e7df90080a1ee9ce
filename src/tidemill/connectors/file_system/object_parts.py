"""Parts below a prefix of an object store, which supports neither append nor rename: a copy makes them visible.

1. A file is written on this machine. When it is stored, it is uploaded atomically under its hidden name.
2. It becomes visible by an atomic copy to its final name, which the store makes itself if it can. Then the hidden
   object is deleted. After a crash in between, both steps are repeated: the copy has the same contents.

The hidden objects of a sink are together below ``.tidemill-<id>/``. To find leftovers, only these few objects are
listed, not everything that the sink has ever written.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, TypeVar

from tidemill.connectors.file_system.part_store import DRAFT_BUFFER, Draft, PartStore, errors_name
from tidemill.connectors.object_store import ObjectStore
from tidemill.errors import ConnectorError, GraphError

__all__ = ["ObjectParts"]

#: The number of concurrent requests. A request takes about 20 to 100 ms, most of which is waiting.
_AT_ONCE: Final = 8
#: Larger files are uploaded in parts of this many bytes, a few of them concurrently: 8 * 4 * 8 MiB = 256 MiB of memory
#: if eight files are that large. S3 allows 10000 parts.
_PIECE: Final = 8 << 20
_PIECES_AT_ONCE: Final = 4
_MOST_PIECES: Final = 10_000
#: S3 copies at most 5 GiB in a request; larger objects are copied through this machine.
_LARGEST_COPY: Final = 5 << 30
#: Azure completes a copy some time after its response. Until then the object is visible, but empty.
_COPIED_LATER: Final = frozenset({"az", "abfs", "abfss"})
#: Delete requests contain object names in XML, which cannot represent these characters.
_NOT_IN_XML: Final = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]")

A = TypeVar("A")
B = TypeVar("B")


class ObjectParts(PartStore):
    """Objects below a URI such as ``s3://bucket/path``; failures are :class:`ConnectorError` and name the object."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._objects = ObjectStore(uri, options, purpose="file sink's path", failure=ConnectorError)
        super().__init__(self._objects.uri)
        self._copies_at_once = uri.partition(":")[0] not in _COPIED_LATER

    def check_bucket(self, bucket: str) -> None:
        super().check_bucket(bucket)
        if _NOT_IN_XML.search(bucket):
            raise GraphError(
                f"names of objects must not contain control characters or code points that are not characters, but the "
                f"bucket {bucket!r} does"
            )

    def hidden_name(self, sink: str, bucket: str, file: str) -> str:
        return str(PurePosixPath(_folder(sink), bucket, file))

    def draft(self, name: str) -> Draft:
        shown = f"{tempfile.gettempdir()} for {self.named(name)}"
        with errors_name(shown):
            stream = tempfile.TemporaryFile(buffering=DRAFT_BUFFER)  # noqa: SIM115 - closed by store() or drop()
        return Draft(name, stream, _path_of(stream), shown)

    def store(self, drafts: Sequence[Draft]) -> None:
        _each(self._upload, drafts)

    def drop(self, draft: Draft) -> None:
        with contextlib.suppress(OSError):  # the disk may be full, so that the buffer cannot be written
            draft.stream.close()
        if draft.stored:
            with contextlib.suppress(ConnectorError):
                self.delete([draft.name])

    @contextlib.contextmanager
    def reading(self, names: Sequence[str]) -> Iterator[list[Path]]:
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(tempfile.TemporaryFile()) for _ in names]
            _each(self._download, list(zip(names, streams, strict=True)))
            yield [_path_of(stream) for stream in streams]

    def exists(self, name: str) -> bool:
        try:
            self._size(name)
        except FileNotFoundError:
            return False
        return True

    def publish(self, names: Mapping[str, str]) -> list[str]:
        found = _each(self._publish, list(names.items()))
        return [hidden for hidden, is_there in zip(names, found, strict=True) if not is_there]

    def delete(self, names: Sequence[str]) -> None:
        if not names:
            return
        try:
            self._objects.call("delete", names[0], lambda store, api: api.delete(store, list(names)))
        except FileNotFoundError:  # only some stores report it, and then the other objects may still exist
            for name in names if len(names) > 1 else ():
                self.delete([name])

    def find(self, sink: str, pattern: str) -> list[str]:
        folder = _folder(sink)

        def listed(store: Any, api: Any) -> list[str]:
            return [entry["path"] for batch in api.list(store, folder) for entry in batch]

        names = self._objects.call("list", folder, listed)
        return [name for name in names if fnmatch.fnmatchcase(PurePosixPath(name).name, pattern)]

    # -- single objects -------------------------------------------------------------------------------------------

    def _upload(self, draft: Draft) -> None:
        with errors_name(draft.shown):
            draft.stream.flush()
        size = draft.stream.seek(0, os.SEEK_END)
        draft.stream.seek(0)
        draft.stored = True  # set before the upload, which may succeed even if the response is lost
        self._put(draft.name, draft.path, size)
        draft.stream.close()

    def _put(self, name: str, path: Path, size: int) -> None:
        piece = max(_PIECE, -(-size // _MOST_PIECES))
        self._objects.call(
            "write",
            name,
            lambda store, api: api.put(store, name, path, chunk_size=piece, max_concurrency=_PIECES_AT_ONCE),
        )

    def _download(self, wanted: tuple[str, IO[bytes]]) -> None:
        name, stream = wanted

        def copy(store: Any, api: Any) -> None:
            found = api.get(store, name)
            with errors_name(f"{tempfile.gettempdir()} for {self.named(name)}"):
                for chunk in found.stream():
                    stream.write(chunk)
                stream.flush()
                stream.seek(0)

        self._objects.call("read", name, copy)

    def _publish(self, names: tuple[str, str]) -> bool:
        """Publish one file. Returns whether it exists under its final name."""
        hidden, final = names
        try:
            self._copy(hidden, final)
        except FileNotFoundError:
            return self.exists(final)
        self.delete([hidden])
        return True

    def _copy(self, hidden: str, final: str) -> None:
        if self._copies_at_once:
            try:
                self._objects.call("copy", hidden, lambda store, api: api.copy(store, hidden, final))
            except ConnectorError:
                if self._size(hidden) <= _LARGEST_COPY:
                    raise
            else:
                return
        with self.reading([hidden]) as (path,):
            self._put(final, path, self._size(hidden))

    def _size(self, name: str) -> int:
        return self._objects.call("look up", name, lambda store, api: int(api.head(store, name)["size"]))


def _folder(sink: str) -> str:
    return f".tidemill-{sink}"


def _path_of(stream: IO[bytes]) -> Path:
    """Return the path of a temporary file. The file is unnamed, so that a killed process leaves no file behind.

    On Linux, opening the path reads from the beginning; on other systems, from the position of ``stream``.
    """
    return Path(f"/dev/fd/{stream.fileno()}")


def _each(act: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """Process items concurrently and return their results; an error is raised after all calls have ended."""
    if len(items) < 2:
        return [act(item) for item in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items)), "tidemill-parts") as pool:
        return list(pool.map(act, items))
