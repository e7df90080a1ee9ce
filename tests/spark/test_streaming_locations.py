"""Which Spark checkpoint location a lineage resumes from, what it takes over, and what it may delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.names import lineage_id, spark_location
from tidemill.errors import CorruptFileError, GraphError
from tidemill.runtime.start.spark_positions import SourceNumbers, arranged, numbers_for
from tidemill.spark.locations.build_location import Origin, build_location
from tidemill.spark.locations.locations import earlier_locations, forget_locations, former_location, take_over
from tidemill.spark.locations.spark_checksums import checksum_of, checksum_path

FIRST, SECOND, THIRD, FOURTH = (lineage_id(slot, "abc") for slot in (1, 5, 9, 12))


ONE: SourceNumbers = {"files": [[0, 0, "FileSource"]]}


def entry(path: Path, text: str) -> None:
    """An entry of a log, as Spark writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    checksum_path(path).write_bytes(checksum_of(text.encode()))


def location(directory: Path, lineage: str, offsets: tuple[int, ...] = (), commits: tuple[int, ...] = ()) -> Path:
    made = directory / spark_location(lineage)
    for batch in offsets:
        entry(made / "offsets" / str(batch), f'v1\n{{"by":"{lineage}"}}\n{{"logOffset":0}}')
    for batch in commits:
        entry(made / "commits" / str(batch), f'v1\n{{"by":"{lineage}"}}')
    entry(made / "sources" / "0" / "0", f"where {lineage} began")
    entry(made / "metadata", '{"id": "query"}')
    return made


def texts(folder: Path) -> dict[str, str]:
    """What the entries of a log say; without checksums."""
    return {path.name: path.read_text() for path in sorted(folder.glob("[0-9]*"))}


def head(spark: dict[str, object] | None) -> Manifest:
    return Manifest("epoch", "job", Lineage(SECOND), Slot(8), Epoch(3), spark=spark)


def test_a_job_resumes_from_the_location_of_its_last_committed_batch(tmp_path: Path) -> None:
    for lineage in (FIRST, SECOND):
        location(tmp_path, lineage)
    restored = head({"batch_id": 4, "offsets": "o", "lineage": FIRST})
    assert former_location(tmp_path, THIRD, restored) == tmp_path / spark_location(FIRST)


def test_before_the_first_committed_batch_it_is_the_newest_that_was_left(tmp_path: Path) -> None:
    assert former_location(tmp_path, THIRD, None) is None
    for lineage in (FIRST, SECOND, FOURTH):
        location(tmp_path, lineage)
    assert former_location(tmp_path, THIRD, head(None)) == tmp_path / spark_location(SECOND)


def test_a_location_that_was_not_completed_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets would refer to files that no log names: they would never be read."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    location(tmp_path, FIRST, offsets=(0,))
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.spark.locations.build_location._Builder._metadata", killed)
        with pytest.raises(KeyboardInterrupt):
            take_over(tmp_path, SECOND, None, ONE, allow_non_restored=False)
    assert (tmp_path / spark_location(SECOND) / "offsets" / "0").exists()
    take_over(tmp_path, THIRD, None, ONE, allow_non_restored=False)
    assert (tmp_path / spark_location(THIRD) / "sources" / "0" / "0").read_text() == f"where {FIRST} began"
    assert earlier_locations(tmp_path, THIRD) == [tmp_path / spark_location(FIRST)]


def test_the_first_batch_is_cut_as_it_was_and_sources_begin_where_they_began(tmp_path: Path) -> None:
    old = location(tmp_path, FIRST, offsets=(0,))
    new = tmp_path / spark_location(SECOND)
    build_location(Origin(old), new, None, ONE)
    assert texts(new / "offsets") == texts(old / "offsets")
    assert not (new / "commits").exists()
    assert (new / "sources" / "0" / "0").read_text() == f"where {FIRST} began"
    assert (new / "metadata").read_text() == (old / "metadata").read_text()
    # Also if it is so again and again.
    again = tmp_path / spark_location(THIRD)
    build_location(Origin(new), again, None, ONE)
    assert texts(again / "offsets") == texts(old / "offsets")


def test_what_the_manifest_says_of_the_last_batch_counts(tmp_path: Path) -> None:
    old = location(tmp_path, FIRST, offsets=(3, 4, 5, 6), commits=(3, 4, 5))
    new = tmp_path / spark_location(SECOND)
    build_location(Origin(old), new, {"batch_id": 4, "offsets": "of the manifest", "lineage": FIRST}, ONE)
    assert texts(new / "offsets") == {
        "3": "of the manifest",
        "4": "of the manifest",
        "5": (old / "offsets" / "5").read_text(),
    }
    assert texts(new / "commits") == {"4": (old / "commits" / "4").read_text()}


def test_a_driver_deletes_no_location_of_a_later_lineage(tmp_path: Path) -> None:
    made = {lineage: location(tmp_path, lineage) for lineage in (FIRST, SECOND, THIRD, FOURTH)}
    assert earlier_locations(tmp_path, THIRD) == [made[FIRST], made[SECOND]]
    forget_locations(tmp_path, THIRD, made[SECOND])
    assert {lineage for lineage, path in made.items() if path.exists()} == {SECOND, THIRD, FOURTH}


# --- a program whose sources have changed

FILES, RATE, KAFKA = "FileSource", "rate", "kafka"
OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n77\n{"topic":{"0":5,"1":6}}'
STORED: SourceNumbers = {"files": [[0, 0, FILES]], "ticks": [[1, 1, RATE]], "topic": [[2, 2, KAFKA]]}


def stored(**more: Any) -> dict[str, Any]:
    return {"batch_id": 4, "offsets": OFFSETS, "lineage": FIRST, "sources": STORED, **more}


def test_the_same_sources_keep_their_offsets_byte_by_byte() -> None:
    assert arranged(stored(), STORED, allow_non_restored=False) == (OFFSETS, None)
    # A manifest that does not say whose they are is taken at its word, if the number is right.
    assert arranged(stored(sources=None), STORED, allow_non_restored=False) == (OFFSETS, None)


def test_sources_in_another_order_with_a_new_one_among_them() -> None:
    numbers: SourceNumbers = {
        "topic": [[0, 0, KAFKA]],
        "new": [[1, 1, RATE]],
        "files": [[2, 2, FILES]],
        "ticks": [[3, 3, RATE]],
    }
    offsets, moves = arranged(stored(), numbers, allow_non_restored=False)
    head, *lines = offsets.split("\n")[1:]
    assert head == '{"batchWatermarkMs":0}'
    assert lines == ['{"topic":{"0":5,"1":6}}', "-", '{"logOffset":3}', "77"]
    assert moves == {0: 2, 2: 0, 3: 1}


def test_a_source_that_has_its_position_elsewhere_now_is_no_part_of_the_query() -> None:
    numbers: SourceNumbers = {"ticks": [[0, 0, RATE]], "topic": [[1, 1, KAFKA]]}
    offsets, moves = arranged(stored(), numbers, allow_non_restored=False, elsewhere={"files"})
    assert offsets.split("\n")[2:] == ["77", '{"topic":{"0":5,"1":6}}']
    assert moves == {0: 1, 1: 2}
    with pytest.raises(GraphError, match="uid 'files', which is not part of the program"):
        arranged(stored(), numbers, allow_non_restored=False, elsewhere={"others"})


def test_one_operator_may_read_several_streams_and_two_the_same() -> None:
    # "both" reads files and ticks, "also" the same ticks: three lines of offsets, but two logs.
    text = "\n".join(["v1", "{}", '{"logOffset":3}', "77", "77"])
    old: SourceNumbers = {"both": [[0, 0, FILES], [1, 1, RATE]], "also": [[2, 1, RATE]]}
    new: SourceNumbers = {"also": [[0, 0, RATE]], "both": [[1, 1, FILES], [2, 0, RATE]]}
    offsets, moves = arranged(stored(sources=old, offsets=text), new, allow_non_restored=False)
    assert offsets.split("\n")[2:] == ["77", '{"logOffset":3}', "77"]
    assert moves == {0: 1, 1: 0}
    apart: SourceNumbers = {"also": [[0, 0, RATE]], "both": [[1, 1, FILES], [2, 2, RATE]]}
    assert arranged(stored(sources=old, offsets=text), apart, allow_non_restored=False)[1] == {0: 1, 1: 0, 2: 1}
    # The other way round they may be at different places of what is one stream now.
    with pytest.raises(GraphError, match="uid 'both' reads the same stream as another one, but they were stored with"):
        arranged(stored(sources=apart, offsets="v1\n{}\n5\n{}\n6"), new, allow_non_restored=False)


def test_a_layout_that_does_not_fit_what_spark_has_logged_is_not_stored() -> None:
    assert numbers_for(OFFSETS, STORED) == STORED
    assert numbers_for(OFFSETS + "\n5", STORED) is None


def test_a_source_that_is_gone_is_left_behind_only_if_that_is_wanted() -> None:
    numbers: SourceNumbers = {"topic": [[0, 0, KAFKA]], "files": [[1, 1, FILES]]}
    with pytest.raises(GraphError, match=r"a position of the Spark source with uid 'ticks'.*ignore-unclaimed-state"):
        arranged(stored(), numbers, allow_non_restored=False)
    offsets, moves = arranged(stored(), numbers, allow_non_restored=True)
    assert offsets.split("\n")[2:] == ['{"topic":{"0":5,"1":6}}', '{"logOffset":3}']
    assert moves == {0: 2, 1: 0}


def test_what_cannot_be_mapped_is_refused() -> None:
    with pytest.raises(GraphError, match="uid 'ticks' was stored with a position in rate, and now reads kafka"):
        arranged(stored(), {**STORED, "ticks": [[1, 1, KAFKA]]}, allow_non_restored=True)
    with pytest.raises(GraphError, match="uid 'ticks' was stored with a position in rate, and now reads rate and rate"):
        arranged(stored(), {**STORED, "ticks": [[1, 1, RATE], [3, 3, RATE]]}, allow_non_restored=True)
    for unknown in (stored(sources=None), stored(offsets=OFFSETS.replace("v1", "v2"))):
        with pytest.raises(GraphError, match="3 Spark sources, and their uids are not known; the program has 1"):
            arranged(unknown, {"files": [[0, 0, FILES]]}, allow_non_restored=True)


def test_a_rearranged_location_has_each_log_at_its_new_number(tmp_path: Path) -> None:
    old = location(tmp_path, FIRST, offsets=(3, 4, 5), commits=(3, 4))
    entry(old / "sources" / "2" / "0", "where the topic began")
    numbers: SourceNumbers = {"topic": [[0, 0, KAFKA]], "files": [[1, 1, FILES]], "ticks": [[2, 2, RATE]]}
    positions = take_over(tmp_path, THIRD, head(stored()), numbers, allow_non_restored=False)
    new = tmp_path / spark_location(THIRD)
    assert positions is not None
    assert (positions["lineage"], positions["batch_id"], positions["sources"]) == (THIRD, 4, numbers)
    # The committed batch twice: Spark replays it as one of nothing. How the next one was cut is forgotten.
    assert texts(new / "offsets") == {
        "3": positions["offsets"],
        "4": positions["offsets"],
    }
    assert not (new / "commits").exists()
    assert (new / "sources" / "0" / "0").read_text() == "where the topic began"
    assert (new / "sources" / "1" / "0").read_text() == f"where {FIRST} began"
    assert (new / "metadata").exists()


def test_positions_of_a_savepoint_begin_a_new_query(tmp_path: Path) -> None:
    saved = lineage_id(0, "abc")
    sources = tmp_path / spark_location(saved) / "sources" / "0"
    sources.mkdir(parents=True)
    (sources / "0").write_text("files")
    for batch in (0, 4):
        restored = head(stored(lineage=saved, batch_id=batch))
        positions = take_over(tmp_path, lineage_id(1 + batch, "abc"), restored, STORED, allow_non_restored=False)
        new = tmp_path / spark_location(lineage_id(1 + batch, "abc"))
        assert positions is not None
        assert sorted(entry.name for entry in (new / "offsets").iterdir()) == (["3", "4"] if batch else ["0"])
        assert (new / "offsets" / str(batch)).read_text() == OFFSETS
        assert (new / "sources" / "0" / "0").read_text() == "files"
    ids = {(tmp_path / spark_location(lineage_id(slot, "abc")) / "metadata").read_text() for slot in (5,)}
    assert all('"id"' in one for one in ids)


def test_a_source_that_would_read_its_files_again_is_refused(tmp_path: Path) -> None:
    (location(tmp_path, FIRST) / "sources" / "0").rename(tmp_path / "lost")
    with pytest.raises(CorruptFileError, match=r"sources/0 is missing: .* which files the source with uid 'files' has"):
        take_over(tmp_path, THIRD, head(stored()), STORED, allow_non_restored=False)
    # One that has read none has no log yet.
    unread = stored(offsets=OFFSETS.replace('{"logOffset":3}', "-"))
    assert take_over(tmp_path, THIRD, head(unread), STORED, allow_non_restored=False) is not None
