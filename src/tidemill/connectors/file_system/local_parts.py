"""Parts in a local or mounted directory: a hidden file is in its final directory, and a rename makes it visible."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tidemill.connectors.file_system.part_store import DRAFT_BUFFER, Draft, PartStore, errors_name
from tidemill.errors import GraphError

__all__ = ["LocalParts"]


class LocalParts(PartStore):
    """Files below a directory that has the same path on all machines of the job."""

    def __init__(self, base: str) -> None:
        super().__init__(base)
        self._base = Path(base)

    def check(self) -> None:
        if self._base.exists() and not self._base.is_dir():
            raise GraphError(f"a file sink writes into a directory, but {self._base} is a file")

    def check_bucket(self, bucket: str) -> None:
        super().check_bucket(bucket)
        leads_to = (self._base / bucket).resolve()
        if not leads_to.is_relative_to(self._base.resolve()):  # by a link
            raise GraphError(
                f"a bucket must be below the sink's directory {self._base}, but {bucket!r} is not: it leads to "
                f"{leads_to}"
            )

    def hidden_name(self, sink: str, bucket: str, file: str) -> str:
        return str(PurePosixPath(bucket, file))

    def draft(self, name: str) -> Draft:
        path = self._base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with errors_name(str(path)):
            return Draft(name, path.open("wb", buffering=DRAFT_BUFFER), path, str(path))

    def store(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            with errors_name(draft.shown), draft.stream as stream:
                stream.flush()
                os.fsync(stream.fileno())
        _sync_directories(draft.path for draft in drafts)

    def drop(self, draft: Draft) -> None:
        with contextlib.suppress(OSError):  # the disk may be full, so that the buffer cannot be written
            draft.stream.close()
        with contextlib.suppress(OSError):
            draft.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def reading(self, names: Sequence[str]) -> Iterator[list[Path]]:
        yield [self._base / name for name in names]

    def exists(self, name: str) -> bool:
        return (self._base / name).is_file()

    def publish(self, names: Mapping[str, str]) -> list[str]:
        gone, appeared = [], []
        for hidden, final in names.items():
            target = self._base / final
            try:
                (self._base / hidden).replace(target)
                appeared.append(target)
            except FileNotFoundError:
                if not target.exists():
                    gone.append(hidden)
        _sync_directories(appeared)
        return gone

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self._base / name).unlink(missing_ok=True)

    def find(self, sink: str, pattern: str) -> list[str]:
        return [str(path.relative_to(self._base)) for path in self._base.rglob(pattern)]


def _sync_directories(paths: Iterator[Path] | Sequence[Path]) -> None:
    """Make the names of new files durable; some file systems do not support this, and do not need it."""
    for directory in {path.parent for path in paths}:
        with contextlib.suppress(OSError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
