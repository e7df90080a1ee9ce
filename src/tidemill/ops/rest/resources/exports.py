"""Download a whole keyed state as a Parquet or CSV file.

The state is first written to a temporary file, some key groups at a time, and sent from there. So memory usage stays
small, a slow client does not slow down reading the epoch, and the client gets either a complete file or an error.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from tidemill.ops.rest.errors import BadRequestError, ConflictError
from tidemill.ops.rest.parameters import JobPath, Name, operating
from tidemill.ops.rest.state_readers import OfEpoch, find_state, reading
from tidemill.state_processor import SavepointReader

__all__ = ["router"]

router = APIRouter(tags=["state"], dependencies=[Depends(operating)])

#: Maximum size of a state in storage. It bounds the temporary file, and the memory for one key group.
MOST_BYTES: Final = 256 << 20
#: Maximum time to read the state.
MOST_SECONDS: Final = 60.0
_CHUNK: Final = 256 << 10
_MEDIA_TYPES: Final = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The file.", "content": dict.fromkeys(_MEDIA_TYPES.values(), _BYTES)}
}


class _TooLong(Exception):  # noqa: N818 - it ends an export
    pass


@router.get(
    "/jobs/{job_id}/state/{operator}/{name}/export",
    summary="Download all entries of a state as a file",
    response_class=StreamingResponse,
    responses=_FILE,
)
def export_state(
    job: JobPath,
    operator: Name,
    name: Name,
    form: Annotated[
        Literal["csv", "parquet"], Query(alias="format", description="The format of the file.")
    ] = "parquet",
    epoch: OfEpoch = None,
) -> StreamingResponse:
    def written(reader: SavepointReader) -> tuple[int, IO[bytes]]:
        owner, state = find_state(job, reader, operator, name)
        if state not in owner.states:
            raise BadRequestError(f"name: {state.name!r} is operator state; only keyed state can be exported")
        command = f"tidemill state export {job.id} {owner.uid} {state.name} FILE.{form} --epoch {reader.epoch}"
        if state.bytes > MOST_BYTES:
            raise ConflictError(f"the state has more than {MOST_BYTES} bytes; export it without the driver: {command}")
        try:
            return reader.epoch, _file(reader, owner.uid, state.name, form)
        except _TooLong:
            raise ConflictError(
                f"reading the state takes more than {MOST_SECONDS:.0f} s; export it without the driver: {command}"
            ) from None

    of_epoch, file = reading(job, epoch, written)
    size = file.seek(0, 2)
    file.seek(0)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="{operator}-{name}-{of_epoch}.{form}"',
        "X-Tidemill-Epoch": str(of_epoch),
    }
    return StreamingResponse(
        _parts(file), headers=headers, media_type=_MEDIA_TYPES[form], background=BackgroundTask(file.close)
    )


def _file(reader: SavepointReader, uid: str, state: str, form: str) -> IO[bytes]:
    """Return the state as an open file that is already unlinked, so that it is deleted in any case."""
    until = time.monotonic() + MOST_SECONDS

    def check(_: int) -> None:
        if time.monotonic() > until:
            raise _TooLong

    with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
        path = Path(folder, "state")
        reader.export(path, uid, state, form, on_rows=check)
        return path.open("rb")


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_CHUNK):
            yield part
