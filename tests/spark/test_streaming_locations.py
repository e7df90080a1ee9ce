"""Which Spark checkpoint location a lineage goes on from, what it takes over, and what it may delete."""

from __future__ import annotations

from pathlib import Path

from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.names import lineage_id, spark_location
from tidemill.spark.streaming import earlier_locations, forget_locations, former_location, inherit_location

FIRST, SECOND, THIRD, FOURTH = (lineage_id(slot, "abc") for slot in (1, 5, 9, 12))


def location(directory: Path, lineage: str, offsets: tuple[int, ...] = (), commits: tuple[int, ...] = ()) -> Path:
    made = directory / spark_location(lineage)
    for log, batches in (("offsets", offsets), ("commits", commits)):
        (made / log).mkdir(parents=True)
        for batch in batches:
            (made / log / str(batch)).write_text(f"{log} of {batch} by {lineage}")
    (made / "sources" / "0").mkdir(parents=True)
    (made / "sources" / "0" / "0").write_text(f"where {lineage} began")
    return made


def head(spark: dict[str, object] | None) -> Manifest:
    return Manifest("epoch", "job", Lineage(SECOND), Slot(8), Epoch(3), spark=spark)


def test_a_job_goes_on_from_the_location_of_its_last_committed_batch(tmp_path: Path) -> None:
    for lineage in (FIRST, SECOND):
        location(tmp_path, lineage)
    restored = head({"batch_id": 4, "offsets": "o", "lineage": FIRST})
    assert former_location(tmp_path, THIRD, restored) == tmp_path / spark_location(FIRST)


def test_before_the_first_committed_batch_it_is_the_newest_that_was_left(tmp_path: Path) -> None:
    assert former_location(tmp_path, THIRD, None) is None
    for lineage in (FIRST, SECOND, FOURTH):
        location(tmp_path, lineage)
    assert former_location(tmp_path, THIRD, head(None)) == tmp_path / spark_location(SECOND)


def test_the_first_batch_is_cut_as_it_was_and_sources_begin_where_they_began(tmp_path: Path) -> None:
    old = location(tmp_path, FIRST, offsets=(0,))
    new = tmp_path / spark_location(SECOND)
    inherit_location(old, new, None)
    assert (new / "offsets" / "0").read_text() == f"offsets of 0 by {FIRST}"
    assert list((new / "commits").iterdir()) == []
    assert (new / "sources" / "0" / "0").read_text() == f"where {FIRST} began"


def test_what_the_manifest_says_of_the_last_batch_counts(tmp_path: Path) -> None:
    old = location(tmp_path, FIRST, offsets=(3, 4, 5, 6), commits=(3, 4))
    new = tmp_path / spark_location(SECOND)
    inherit_location(old, new, {"batch_id": 4, "offsets": "of the manifest", "lineage": FIRST})
    assert sorted(entry.name for entry in (new / "offsets").iterdir()) == ["3", "4", "5"]
    assert (new / "offsets" / "4").read_text() == "of the manifest"
    assert sorted(entry.name for entry in (new / "commits").iterdir()) == ["3", "4"]


def test_a_driver_deletes_no_location_of_a_later_lineage(tmp_path: Path) -> None:
    made = {lineage: location(tmp_path, lineage) for lineage in (FIRST, SECOND, THIRD, FOURTH)}
    assert earlier_locations(tmp_path, THIRD) == [made[FIRST], made[SECOND]]
    forget_locations(tmp_path, THIRD, made[SECOND])
    assert {lineage for lineage, path in made.items() if path.exists()} == {SECOND, THIRD, FOURTH}
