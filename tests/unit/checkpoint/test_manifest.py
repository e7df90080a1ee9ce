"""The manifest's format: exact, small, fast, and never read wrongly."""

from __future__ import annotations

import dataclasses
import struct
import time
import zlib
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tests.unit.checkpoint.examples import full_manifest, piece
from tidemill.checkpoint import frame
from tidemill.checkpoint.manifest import MAGIC, decode_manifest, encode_manifest, read_piece
from tidemill.checkpoint.model import Attempt, Epoch, Lineage, Manifest, RunRef, Slot
from tidemill.checkpoint.snapshot_index import SnapshotIndex, decode_snapshot_index, encode_snapshot_index
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.errors import CheckpointError, CorruptFileError

MINIMAL = Manifest("takeover", "j", Lineage("l"), Slot(1), Epoch(0))
INDEX = SnapshotIndex("snap", Epoch(7), (piece(b"inline"), piece(b"file", file="snapshots/snap/000000.tms")))
FILES = {
    "manifest": (encode_manifest(full_manifest()), decode_manifest),
    "minimal": (encode_manifest(MINIMAL), decode_manifest),
    "index": (encode_snapshot_index(INDEX), decode_snapshot_index),
}
each_file = pytest.mark.parametrize("kind", FILES)


def forged(header: dict[str, Any], attachments: list[bytes] | None = None) -> bytes:
    """An intact file with a header no encoder of ours would write."""
    return frame.pack(MAGIC, 1, header, attachments or [])


def test_the_round_trip_is_exact() -> None:
    for manifest in (full_manifest(), MINIMAL):
        again = decode_manifest(encode_manifest(manifest), "m")
        assert again == manifest
        assert repr(again) == repr(manifest)  # == holds between 1, 1.0 and True, repr does not
        assert encode_manifest(again) == encode_manifest(manifest)
    assert decode_snapshot_index(encode_snapshot_index(INDEX), "i") == INDEX


def test_every_field_is_stored() -> None:
    """A field that is added to Manifest and forgotten by the encoder shows up here."""
    full, again = full_manifest(), decode_manifest(encode_manifest(full_manifest()), "m")
    for field in dataclasses.fields(Manifest):
        if field.default is not dataclasses.MISSING:
            assert getattr(full, field.name) != field.default, f"the example should set {field.name}"
        assert getattr(again, field.name) == getattr(full, field.name)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.binary(), st.integers()) | st.none(), inner)
        | st.dictionaries(st.text("$tbdf", max_size=2), inner)
    ),
    max_leaves=15,
)


@settings(max_examples=examples(80), deadline=None)
@given(st.dictionaries(st.text(), values))
def test_values_of_any_shape_come_back_as_they_were(sources: dict[str, Any]) -> None:
    manifest = dataclasses.replace(MINIMAL, sources=sources, spark=sources)
    again = decode_manifest(encode_manifest(manifest), "m")
    assert repr(again) == repr(manifest)


def test_floats_that_json_lacks() -> None:
    manifest = dataclasses.replace(MINIMAL, metrics={"a": float("nan"), "b": float("inf"), "c": float("-inf")})
    assert repr(decode_manifest(encode_manifest(manifest), "m")) == repr(manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sources": {"s": {1, 2}}}, "sources contains a builtins.set"),
        ({"spark": {"x": Slot}}, "spark contains a"),
        ({"kind": "else"}, "unknown kind"),
        ({"epoch": 1.0}, "expected a number"),
        ({"slot": -1}, "expected a number"),
        ({"parallelism": {1: 1}}, "expected str"),
        ({"attempts": {"c": (1,)}}, "expected str"),
        ({"runs": (RunRef(Epoch(1)),)}, "either a slot or a snapshot"),
        ({"committables": {"s": {0: ("text",)}}}, "bytes-like"),
        ({"pieces": (dataclasses.replace(piece(), data=None),)}, "either data or a file"),
        ({"pieces": (dataclasses.replace(piece(), length=1),)}, "more bytes, not 1"),
        ({"pieces": (dataclasses.replace(piece(), sha256="0" * 64),)}, "do not match"),
        ({"pieces": (piece(file="../x"),)}, "is not a name inside"),
    ],
)
def test_what_could_not_be_read_back_is_not_stored(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=f"epoch .* cannot be stored: .*{message}"):
        encode_manifest(dataclasses.replace(MINIMAL, **change))


def test_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        encode_manifest(dataclasses.replace(MINIMAL, sources={"s": loop}))


@each_file
def test_every_flipped_byte_is_noticed(kind: str) -> None:
    data, decode = FILES[kind]
    for position in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            with pytest.raises(CorruptFileError, match=r"^some/file is corrupt"):
                decode(bytes(damaged), "some/file")


@each_file
def test_every_truncation_and_every_tail_is_noticed(kind: str) -> None:
    data, decode = FILES[kind]
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match=r"^some/file is corrupt"):
            decode(data[:length], "some/file")
    for tail in (b"\0", b"x" * 32, data):
        with pytest.raises(CorruptFileError, match=r"^some/file is corrupt"):
            decode(data + tail, "some/file")


def test_the_damage_is_located() -> None:
    data, _ = FILES["manifest"]
    header = struct.unpack_from("<I", data, 12)[0]
    attachments = 24 + header
    for position, message in [
        (0, "at offset 0: it does not begin with"),
        (9, "at offset 0: the prefix"),
        (30, f"at offset 24: the header of {header} bytes"),
        (attachments + 1, f"at offset {attachments}: attachment 0 of 3 bytes"),
        (len(data) - 1, f"at offset {len(data) - 32}: its SHA-256"),
    ]:
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(CorruptFileError, match=message):
            decode_manifest(bytes(damaged), "m")
    with pytest.raises(CorruptFileError, match=r"at offset 100: it ends inside its header"):
        decode_manifest(data[:100], "m")


@settings(max_examples=examples(200))
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_without_a_crash(data: bytes) -> None:
    for content in (data, MAGIC + data):
        with pytest.raises(CorruptFileError):
            decode_manifest(content, "m")


def test_a_newer_version_is_distinguished_from_damage() -> None:
    data = frame.pack(MAGIC, 4, {"anything": "else"}, [])
    with pytest.raises(CheckpointError, match=r"^m has format version 4; .* reads up to 3: use a newer one") as caught:
        decode_manifest(data, "m")
    assert not isinstance(caught.value, CorruptFileError)
    with pytest.raises(CorruptFileError, match="no format version 0"):
        decode_manifest(frame.pack(MAGIC, 0, {}, []), "m")
    with pytest.raises(CorruptFileError, match="does not begin with"):
        decode_manifest(FILES["index"][0], "m")


def test_forged_lengths_allocate_nothing() -> None:
    prefix = struct.pack("<8sHHII", MAGIC, 1, 0, 0xFFFFFFFF, 0)
    body = prefix + struct.pack("<I", zlib.crc32(prefix)) + b"{}"
    with pytest.raises(CorruptFileError, match="does not fit into the file"):
        decode_manifest(body + sha256(body).digest(), "m")
    for lengths in ([[1 << 62, 0]], [[-1, 0]], [["1", 0]], {"a": 1}, [[1]], [[1, 0], [1 << 40, 0]]):
        with pytest.raises(CorruptFileError):
            decode_manifest(forged({"attachments": lengths}), "m")


HEADER: dict[str, Any] = {"kind": "epoch", "job_id": "j", "lineage": "l", "slot": 1, "epoch": 1}
PIECE = [0, "c", 1, "0" * 64, [], "state/x", None]


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1}, {"kind": 5}, {"slot": True}, {"slot": None}, {"epoch": "1"}, {"clock": 1.5}, {"finished": 1},
        {"sources": []}, {"sources": {"s": {"$x": 1}}}, {"sources": {"s": {"$b": "*"}}}, {"sources": {"$t": [1]}},
        {"sources": {"s": {"$d": [[[], 1]]}}}, {"sources": {"s": {"$t": [], "$b": ""}}},
        {"sources": {"s": {"$f": "1"}}},
        {"runs": [[1, None, None, 0]]}, {"runs": [[1, 1]]}, {"runs": 5}, {"watermarks": {"c": ["1"]}},
        {"attempts": {"c": "abc"}}, {"committables": {"s": [[0, [0]]]}}, {"committables": {"s": [[0, [-1]]]}},
        {"pieces": [[*PIECE[:5], "../x", None]]}, {"pieces": [[*PIECE[:5], "/etc/passwd", None]]},
        {"pieces": [[*PIECE[:5], "x", 0]]}, {"pieces": [[*PIECE[:5], None, None]]}, {"pieces": [[*PIECE[:5], None, 9]]},
        {"pieces": [[*PIECE[:4], [["o", "s", 0, 1]], "x", None]]}, {"pieces": [[-1, *PIECE[1:]]]}, {"pieces": {"a": 1}},
    ],
)  # fmt: skip
def test_intact_files_of_the_wrong_form_are_refused(change: dict[str, Any]) -> None:
    assert decode_manifest(forged({**HEADER, "pieces": [PIECE]}), "m").pieces[0].file == "state/x"
    with pytest.raises(CorruptFileError, match=r"^m is corrupt"):
        decode_manifest(forged({**HEADER, **change}), "m")
    with pytest.raises(CorruptFileError):
        decode_manifest(forged({}), "m")


def test_a_deeply_nested_header_is_refused() -> None:
    text = b'{"sources":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    prefix = struct.pack("<8sHHII", MAGIC, 1, 0, len(text), zlib.crc32(text))
    body = prefix + struct.pack("<I", zlib.crc32(prefix)) + text
    with pytest.raises(CorruptFileError, match="m is corrupt"):
        decode_manifest(body + sha256(body).digest(), "m")


def test_pieces_are_checked_before_use() -> None:
    storage = MemoryStorage()
    storage.write("state/x", b"content")
    good = piece(b"content", file="state/x")
    assert read_piece(storage, good, "m1") == b"content"
    assert read_piece(storage, piece(b"inline"), "m1") == b"inline"
    with pytest.raises(CorruptFileError, match=r"state/gone is missing, but m1 refers to it"):
        read_piece(storage, dataclasses.replace(good, file="state/gone"), "m1")
    for content, message in [
        (b"conten", "at offset 6: it has 6 bytes, not 7"),
        (b"content!", "at offset 7: it has more bytes"),
        (b"c0ntent", "do not match their SHA-256"),
    ]:
        storage.write("state/x", content)
        with pytest.raises(CorruptFileError, match=rf"state/x \(named by m1\) is corrupt.*{message}"):
            read_piece(storage, good, "m1")
    with pytest.raises(CorruptFileError, match="in m1 is corrupt"):
        read_piece(storage, dataclasses.replace(piece(b"inline"), data=b"inlinE"), "m1")
    with pytest.raises(CorruptFileError, match="neither data nor a file"):
        read_piece(storage, dataclasses.replace(piece(), data=None), "m1")


def test_an_empty_epoch_is_small_and_fast() -> None:
    runs = tuple(RunRef(Epoch(n), slot=Slot(n), bytes=1000) for n in range(1000, 1010))
    uuids = tuple(Attempt(f"{n:032x}") for n in range(2))
    manifest = Manifest(
        kind="epoch",
        job_id="8f14e45fceea167a5a36dedd4bea2543",
        lineage=Lineage("000000000001-0123456789abcdef"),
        slot=Slot(1012),
        epoch=Epoch(1011),
        clock=1_700_000_000_000,
        parallelism={"source": 2, "count-by-word": 2},
        max_parallelism={"source": 128, "count-by-word": 128},
        attempts={"source": uuids, "count-by-word": uuids},
        watermarks={"source": (1_700_000_000_000,) * 2, "count-by-word": (1_700_000_000_000,) * 2},
        sources={"source": {"position": 12345}},
        spark={
            "batch_id": 1011,
            "offsets": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}\n{"logOffset":9}',
        },
        runs=runs,
        operators_slot=Slot(2),
        checkpoints=(Slot(900),),
    )
    assert len(encode_manifest(manifest)) < 1500
    times = []
    for _ in range(200):
        start = time.thread_time()
        encode_manifest(manifest)
        times.append(time.thread_time() - start)
    assert min(times) < 0.0002  # well under 0.2 ms; the least of many is what the code itself needs


def test_a_manifest_has_the_oldest_version_that_can_hold_it() -> None:
    manifest = full_manifest()
    for times, version in (({}, 1), (manifest.times, 2)):
        data = encode_manifest(dataclasses.replace(manifest, times=times))
        assert int.from_bytes(data[8:10], "little") == version
        assert decode_manifest(data, "m").times == times


@pytest.mark.parametrize("state", [7, [["p", 1, True]], [["p", 1.5, True, None, None]], [[1, 1, True, None, None]]])
def test_times_of_another_form_are_not_stored(state: object) -> None:
    with pytest.raises(CheckpointError, match="cannot be stored"):
        encode_manifest(dataclasses.replace(full_manifest(), times={"source": (state,)}))
