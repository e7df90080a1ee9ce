"""Detects lost manifests: what the other files of a job prove about its log.

A start trusts the last manifest it finds. If manifests are lost (deleted manually, by a lifecycle rule, or omitted by a
copy), the job would silently resume from an older epoch, or from nothing. Other files prove the loss, because each of
them was written after a manifest that must therefore have existed:

- A lineage writes nothing before its takeover record is durable, and takeover records are never deleted. So the log
  reaches at least as far as the newest lineage that has a file, and the head belongs to that lineage or a newer one.
- In the head's own lineage, epoch ``n`` runs only after the manifest of ``n - 1`` is durable. So a file of an epoch
  beyond the next one belongs to a lost manifest. A snapshot merges committed epochs only.
- Spark logs the commit of a batch after the epoch of that batch is committed.

The leftovers of a crash prove no loss: files of the epoch that was running, in any number of attempts; files of older
lineages, whatever their epochs (a job may have been reset to an earlier epoch, or restarted without state); and files
that were copied from a savepoint before the job existed, whose lineage has the number 0. The write-ahead logs of sinks
are no evidence: a savepoint contains them under the names that another job gave them.

Names are listed before the head is determined. So the listing may be stale or have gaps, and other drivers may be
running: what is listed was written earlier, and the head is found without relying on a listing. A loss may go
unnoticed, but a start is never refused without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.checkpoint.names import (
    SNAPSHOTS,
    SPARK,
    STATE,
    lineage_slot,
    parse_delta,
    parse_snapshot,
    parse_snapshot_id,
    parse_spark_log,
)
from tidemill.checkpoint.storage.api import Storage
from tidemill.errors import CorruptFileError

#: The folders whose files are named after their lineage.
_FOLDERS = (STATE, SNAPSHOTS, SPARK)


@dataclass(frozen=True)
class Evidence:
    """What a file's name proves: the lineage that wrote it, and the last epoch or batch committed before, if known."""

    name: str
    lineage: str
    epoch: Epoch = Epoch(0)
    batch: int = -1

    @property
    def slot(self) -> int:
        """The slot of the record that opened the lineage; 0 for files that came from a savepoint."""
        return lineage_slot(self.lineage) or 0


def evidence(storage: Storage) -> list[Evidence]:
    """What the files of a job prove about its manifests."""
    names = (name for folder in _FOLDERS for name in storage.list(folder))
    return [found for name in names if (found := evidence_of(name)) is not None]


def evidence_of(name: str) -> Evidence | None:
    """What one name proves; None if the name is not that of a file of a lineage."""
    if delta := parse_delta(name):
        return Evidence(name, delta.lineage, epoch=Epoch(delta.epoch - 1))
    if (snapshot := parse_snapshot(name)) and (owner := parse_snapshot_id(snapshot)):
        return Evidence(name, owner.lineage, epoch=owner.through)
    if logged := parse_spark_log(name):
        return Evidence(name, logged.lineage, batch=logged.committed_batch)
    return None


def beyond(head: Manifest | None, found: Iterable[Evidence]) -> list[Evidence]:
    """The evidence of manifests after ``head``, or of any manifest if there is no head. A pure function."""
    if head is None:
        return [one for one in found if one.slot > 0]
    own = lineage_slot(head.lineage) or 0
    spark = head.spark or {}
    # If the positions are from an earlier lineage, the job may have been reset to them.
    batch = int(spark["batch_id"]) if spark.get("lineage") == head.lineage else None
    return [
        one
        for one in found
        if one.slot > own
        or (one.lineage == head.lineage and (one.epoch > head.epoch or (batch is not None and one.batch > batch)))
    ]


def read_head(storage: Storage, log: ManifestLog, after: str | None = None) -> Manifest | None:
    """The last manifest, as :meth:`ManifestLog.read_head` returns it, unless files prove that there was a later one.

    ``after`` is the lineage that this driver had before. Raises :class:`CorruptFileError` if manifests are lost.
    """
    found = evidence(storage)
    if after is not None:
        found.append(Evidence("", after))
    head = log.read_head()
    lost = beyond(head, found)
    if lost:
        raise CorruptFileError(_message(log, head, lost))
    return head


def and_more(name: str, more: int) -> str:
    """A file and how many others, as messages show them."""
    return f"{name} and {more} more files" if more > 1 else f"{name} and one more file" if more else name


def _message(log: ManifestLog, head: Manifest | None, lost: list[Evidence]) -> str:
    files = sorted(one.name for one in lost if one.name)
    newest = max(lost, key=lambda one: (one.slot, one.epoch))
    last = "there is none" if head is None else f"the last one is of epoch {head.epoch} (slot {head.slot})"
    seen = and_more(files[-1], len(files) - 1) if files else "what this driver itself has committed"
    back = ""
    if head is not None and head.epoch:
        back = (
            f" To accept the loss and return to epoch {head.epoch}, start another job id from the directory of this "
            f"job with /chk-{head.epoch} appended (execution.state-recovery.path)."
        )
    return (
        f"manifests of job {log.job_id} are lost: {last}, but lineage {newest.lineage} has run the job since"
        f"{f' and committed epoch {newest.epoch}' if newest.epoch else ''}. The evidence is {seen}. The job was not "
        "started: it would lose or repeat what was committed. Restore the files in manifests/, or start another job "
        f"id from a savepoint.{back} To delete the remaining files and start without state, set "
        "execution.resume-mode: none"
    )
