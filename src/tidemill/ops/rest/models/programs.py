"""Uploaded programs, and requests to run them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict


class ProgramEntry(TypedDict):
    """An entry point of a program: one of its scripts."""

    name: str
    description: str | None


class ProgramFile(TypedDict):
    """A program: ``name`` is the file name that the client sent, ``entry`` the default entry point."""

    id: str
    name: str
    uploaded: int
    entry: list[ProgramEntry]


class ProgramList(TypedDict):
    """All programs, newest first."""

    address: str
    files: list[ProgramFile]


class Uploaded(TypedDict):
    """A stored program: ``filename`` is its id."""

    filename: str
    status: str


class SinkPromise(TypedDict):
    """The guarantee of a sink of a program."""

    sink: str
    guarantee: str
    because: list[str]


class ProgramPlan(TypedDict):
    """The plan of the first job of a program, as in the output of ``tidemill info --json``."""

    name: str
    plan: dict[str, Any]
    guarantees: list[SinkPromise]


class JobOfRun(TypedDict):
    """The first job of a program that was started."""

    jobid: str


class RunRequest(BaseModel):
    """How to run a program, with Flink's fields. ``entryClass`` is a script in a zip, or ``module:function``."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)

    entry_class: str | None = Field(default=None, alias="entryClass", max_length=256)
    program_args: list[str] = Field(default=[], alias="programArgsList", max_length=100)
    parallelism: int | None = Field(default=None, ge=1, le=32_768)
    savepoint_path: str | None = Field(default=None, alias="savepointPath", max_length=1024)
    allow_non_restored: bool = Field(default=False, alias="allowNonRestoredState")
    job_id: str | None = Field(default=None, alias="jobId", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    configuration: dict[str, str] = Field(default={}, alias="flinkConfiguration", max_length=200)
