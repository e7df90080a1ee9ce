"""Programs over REST, at Flink's paths for jars: upload, list, show the plan, run, delete. Disabled by default.

A program is a Python script, or a zip of scripts. Running a program means running any code as the user of this process.
So everything here requires the permission to operate, and these paths exist only with ``web.submit.enable``.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from tidemill.ops.rest.errors import BadRequestError, UnavailableError
from tidemill.ops.rest.models.jobs import Nothing
from tidemill.ops.rest.models.programs import (
    JobOfRun,
    ProgramEntry,
    ProgramFile,
    ProgramList,
    ProgramPlan,
    RunRequest,
    Uploaded,
)
from tidemill.ops.rest.parameters import operating
from tidemill.ops.rest.program_runs import Programs
from tidemill.ops.rest.program_store import StoredProgram

__all__ = ["router"]

router = APIRouter(tags=["programs"], dependencies=[Depends(operating)])

_FORM: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["jarfile"],
                    "additionalProperties": False,
                    "properties": {
                        "jarfile": {"type": "string", "format": "binary", "description": "A file NAME.py or NAME.zip."}
                    },
                }
            }
        },
    }
}


def _programs(request: Request) -> Programs:
    programs: Programs = request.app.state.programs
    return programs


ProgramsOfServer = Annotated[Programs, Depends(_programs)]


def _program(
    programs: ProgramsOfServer,
    jar_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The id of a program.")],
) -> StoredProgram:
    return programs.store.get(jar_id)


ProgramPath = Annotated[StoredProgram, Depends(_program)]


@router.get("/jars", summary="The uploaded programs, newest first")
def get_programs(programs: ProgramsOfServer, request: Request) -> ProgramList:
    return {"address": str(request.base_url).rstrip("/"), "files": [_shown(one) for one in programs.store.all()]}


@router.post("/jars/upload", summary="Upload a program: a .py file, or a .zip of them", openapi_extra=_FORM)
async def upload_program(programs: ProgramsOfServer, request: Request) -> Uploaded:
    uploading: asyncio.Lock = request.app.state.uploading
    if uploading.locked():
        raise UnavailableError("another program is being uploaded: try again later")
    async with uploading:
        try:
            form = await MultiPartParser(request.headers, request.stream(), max_files=1, max_fields=0).parse()
        except (MultiPartException, KeyError, UnicodeDecodeError) as error:
            raise BadRequestError(f"jarfile: the form cannot be read: {error}") from error
        except ClientDisconnect:
            raise BadRequestError("the upload is incomplete") from None
        file = form.get("jarfile")
        try:
            if not isinstance(file, UploadFile):
                raise BadRequestError("jarfile: the form must contain a file with this name")
            kept = await run_in_threadpool(programs.store.add, file.filename or "", file.file)
        finally:
            await form.close()
    return {"filename": kept.id, "status": "success"}


@router.get("/jars/{jar_id}/plan", summary="The plan of a program, which is run up to its first job")
def get_program_plan(
    programs: ProgramsOfServer,
    program: ProgramPath,
    entry: Annotated[
        str | None, Query(alias="entry-class", max_length=256, description="A script in a zip, or module:function.")
    ] = None,
    arguments: Annotated[
        str | None, Query(alias="programArg", max_length=4096, description="Comma-separated arguments.")
    ] = None,
    parallelism: Annotated[int | None, Query(ge=1, le=32_768)] = None,
) -> ProgramPlan:
    return programs.plan(program, entry, arguments.split(",") if arguments else (), parallelism)


@router.post("/jars/{jar_id}/run", summary="Run a program in a separate process; responds once it has a job")
def run_program(programs: ProgramsOfServer, program: ProgramPath, body: RunRequest | None = None) -> JobOfRun:
    return {"jobid": programs.run(program, body or RunRequest())}


@router.delete("/jars/{jar_id}", summary="Delete a program that is not running")
def delete_program(programs: ProgramsOfServer, program: ProgramPath) -> Nothing:
    programs.remove(program)
    return {}


def _shown(program: StoredProgram) -> ProgramFile:
    entry = program.entry
    entries = [] if entry is None else [ProgramEntry(name=entry, description=None)]
    return {"id": program.id, "name": program.name, "uploaded": program.uploaded, "entry": entries}
