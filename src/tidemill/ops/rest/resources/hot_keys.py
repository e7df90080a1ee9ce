"""The most frequent keys of a vertex, to find skewed data."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.models.vertices import HotKeyInfo, HotKeysInfo
from tidemill.ops.rest.parameters import JobPath, operating
from tidemill.ops.rest.resources.vertices import VertexPath

__all__ = ["router"]

router = APIRouter(tags=["vertices and metrics"], dependencies=[Depends(operating)])


@router.get(
    "/jobs/{job_id}/vertices/{vertex_id}/hot-keys", summary="The most frequent keys of a vertex, estimated from samples"
)
def get_hot_keys(job: JobPath, chain: VertexPath) -> HotKeysInfo:
    found = job.client.get_hot_keys(chain.head.uid)
    if found is None:
        raise ResourceNotFoundError(
            f"keys of vertex {chain.head.uid!r} are not sampled: "
            + ("metrics.hot-keys.enabled is false" if chain.head.keyed else "its input is not keyed")
        )
    keys = [HotKeyInfo(key=one.key, text=one.text, share=one.share, records=one.records) for one in found.keys]
    return HotKeysInfo(keys=keys, sampled=found.sampled)
