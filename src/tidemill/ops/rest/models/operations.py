"""Operations that change a job: requests and results."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from typing_extensions import NotRequired, TypedDict

Trigger = TypedDict("Trigger", {"request-id": str})


class OperationState(TypedDict):
    """IN_PROGRESS or COMPLETED."""

    id: str


FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str})
OperationResult = TypedDict(
    "OperationResult", {"location": NotRequired[str], "failure-cause": NotRequired[FailureCause]}
)


class OperationAnswer(TypedDict):
    """The status of an operation; ``operation`` is present once it has completed."""

    status: OperationState
    operation: NotRequired[OperationResult]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


_ID = Field(default=None, alias="triggerId", pattern=r"^[A-Za-z0-9_-]{1,64}$")
_FORMAT = Field(default="CANONICAL", alias="formatType", pattern="^(CANONICAL|NATIVE)$")


class SavepointRequest(_Request):
    """A savepoint to take. There is only one savepoint format: ``formatType`` is accepted, but has no effect."""

    target_directory: str | None = Field(default=None, alias="target-directory", max_length=1024)
    cancel_job: bool = Field(default=False, alias="cancel-job")
    trigger_id: str | None = _ID
    format_type: str = _FORMAT


class StopRequest(_Request):
    """A savepoint to stop with; ``drain`` first sends the maximum watermark."""

    target_directory: str | None = Field(
        default=None, validation_alias=AliasChoices("targetDirectory", "target-directory"), max_length=1024
    )
    drain: bool = False
    trigger_id: str | None = _ID
    format_type: str = _FORMAT


class RescaleRequest(_Request):
    """A new parallelism for operators, by uid."""

    parallelism: dict[str, int] = Field(min_length=1, max_length=1000)


class DisposalRequest(_Request):
    """A savepoint to delete."""

    savepoint_path: str = Field(alias="savepoint-path", max_length=1024)
