"""Asynchronous operations: take a savepoint, stop, rescale, delete a savepoint. Their results are polled by id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query

from tidemill.checkpoint.savepoint import dispose_savepoint
from tidemill.checkpoint.storage.storages import store_options
from tidemill.common.completable_future import CompletableFuture
from tidemill.config import CheckpointingOptions
from tidemill.config.redaction import redacted
from tidemill.ops.drivers.owner_proof import PROOF_HEADER, is_proven
from tidemill.ops.rest.errors import BadRequestError, ForbiddenError
from tidemill.ops.rest.guard import Grant
from tidemill.ops.rest.jobs_shown import ShownJob, ShownJobs
from tidemill.ops.rest.messages import message_for
from tidemill.ops.rest.models.operations import (
    DisposalRequest,
    OperationAnswer,
    OperationResult,
    OperationState,
    RescaleRequest,
    SavepointRequest,
    StopRequest,
    Trigger,
)
from tidemill.ops.rest.operations import Operation, Operations
from tidemill.ops.rest.parameters import ClientGrant, JobPath, JobsOfServer, Name, OperationsOfServer
from tidemill.ops.rest.resources.jobs import check_running
from tidemill.ops.rest.savepoint_paths import checked_path, roots_of

__all__ = ["router"]

router = APIRouter(tags=["operations"])

#: Sent by the command line of the driver's own user on its own machine, who may name any directory.
OwnerProof = Annotated[str | None, Header(alias=PROOF_HEADER, include_in_schema=False)]


@router.post("/jobs/{job_id}/savepoints", status_code=202, summary="Take a savepoint, and optionally cancel the job")
def trigger_savepoint(
    job: JobPath, operations: OperationsOfServer, body: SavepointRequest | None = None, proof: OwnerProof = None
) -> Trigger:
    asked = body or SavepointRequest()
    take = job.client.cancel_with_savepoint if asked.cancel_job else job.client.trigger_savepoint
    target = _target(job, asked.target_directory, proof)
    return _begin(operations, "savepoints", job, asked.trigger_id, lambda: take(target))


@router.get("/jobs/{job_id}/savepoints/{trigger_id}", summary="The status of a savepoint, also of one to stop with")
def get_savepoint(
    job: JobPath, operations: OperationsOfServer, grant: ClientGrant, trigger_id: Name
) -> OperationAnswer:
    return _answer(operations.get("savepoints", job.id, trigger_id), grant)


@router.post("/jobs/{job_id}/stop", status_code=202, summary="Stop the job with a savepoint, and optionally drain it")
def stop_job(
    job: JobPath, operations: OperationsOfServer, body: StopRequest | None = None, proof: OwnerProof = None
) -> Trigger:
    asked = body or StopRequest()
    target = _target(job, asked.target_directory, proof)
    return _begin(
        operations,
        "savepoints",
        job,
        asked.trigger_id,
        lambda: job.client.stop_with_savepoint(asked.drain, target),
    )


@router.patch("/jobs/{job_id}/rescaling", status_code=202, summary="Change the parallelism of a running job")
def rescale_job(
    job: JobPath,
    operations: OperationsOfServer,
    parallelism: Annotated[
        int | None, Query(ge=1, le=32_768, description="For all operators that do not specify their own.")
    ] = None,
    body: RescaleRequest | None = None,
) -> Trigger:
    if (parallelism is None) == (body is None):
        raise BadRequestError("parallelism: specify either the query parameter, or a body with one for each uid")
    wanted = parallelism if body is None else body.parallelism
    return _begin(operations, "rescaling", job, None, lambda: job.client.rescale(wanted or 0))


@router.get("/jobs/{job_id}/rescaling/{trigger_id}", summary="The status of a change of the parallelism")
def get_rescaling(
    job: JobPath, operations: OperationsOfServer, grant: ClientGrant, trigger_id: Name
) -> OperationAnswer:
    return _answer(operations.get("rescaling", job.id, trigger_id), grant)


@router.post("/savepoint-disposal", status_code=202, summary="Delete a savepoint")
def dispose(jobs: JobsOfServer, operations: OperationsOfServer, body: DisposalRequest) -> Trigger:
    operations.check_room()
    job, path = _owner(jobs, body.savepoint_path.removesuffix("/_metadata"))
    options = store_options(job.outline.configuration)
    future: CompletableFuture[None] = CompletableFuture()

    def delete() -> None:
        try:
            dispose_savepoint(path, options)
        except BaseException as error:
            future._future.set_exception(error)
        else:
            future._future.set_result(None)

    begun = operations.begun("savepoint-disposal", "", future)
    threading.Thread(target=delete, name="tidemill-rest-disposal", daemon=True).start()
    return {"request-id": begun}


@router.get("/savepoint-disposal/{trigger_id}", summary="The status of the deletion of a savepoint")
def get_disposal(operations: OperationsOfServer, grant: ClientGrant, trigger_id: Name) -> OperationAnswer:
    return _answer(operations.get("savepoint-disposal", "", trigger_id), grant)


def _begin(
    operations: Operations,
    kind: str,
    job: ShownJob,
    operation_id: str | None,
    begin: Callable[[], CompletableFuture[Any]],
) -> Trigger:
    def begun() -> CompletableFuture[Any]:
        check_running(job)
        return begin()

    return {"request-id": operations.begin(kind, job.id, begun, operation_id)}


def _target(job: ShownJob, path: str | None, proof: str | None) -> str | None:
    """Return the target directory of a savepoint, or None for the configured directory."""
    configuration = job.outline.configuration
    if path is not None:
        anywhere = [path] if is_proven(proof, path) else []
        return checked_path(path, [*roots_of(configuration), *anywhere])
    if configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY) is None:
        raise BadRequestError(
            f"target-directory: specify a directory, because the job has no "
            f"{CheckpointingOptions.SAVEPOINT_DIRECTORY.key}"
        )
    return None


def _owner(jobs: ShownJobs, path: str) -> tuple[ShownJob, str]:
    """Return the job whose savepoint directories contain a savepoint, and the resolved path."""
    for job in jobs.all():
        try:
            return job, checked_path(path, roots_of(job.outline.configuration))
        except ForbiddenError:
            continue
    raise ForbiddenError("savepoint-path must be a savepoint below a savepoint directory of a job")


def _answer(operation: Operation, grant: Grant) -> OperationAnswer:
    future = operation.future
    if not future.done():
        return OperationAnswer(status=OperationState(id="IN_PROGRESS"))
    error = future.exception()
    if error is not None:
        name = type(error).__name__
        told = message_for(grant, str(error) or name)
        failure: OperationResult = {"failure-cause": {"class": name, "stack-trace": told}}
        return OperationAnswer(status=OperationState(id="COMPLETED"), operation=failure)
    result = future.result(0)
    done: OperationResult = {} if result is None else {"location": redacted(str(result))}
    return OperationAnswer(status=OperationState(id="COMPLETED"), operation=done)
