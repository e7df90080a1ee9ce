"""Routes and senders: who gets which record, how batches become parcels, how time travels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.datastream.program.transformations import Partitioning, PartitionKind
from tidemill.errors import GraphError, InvalidKeyError, UserCodeError
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.exchange.parcels import HEADER_SIZE, Header, ParcelKind, decode_records
from tidemill.runtime.exchange.routes import Route, key_extractor, rescale_targets, route_for
from tidemill.runtime.exchange.sender import EdgeSender
from tidemill.runtime.time.strands import Opening, PartitionEnd, SentStrand, Strand
from tidemill.state.keys.key_groups import key_group_of, subtask_for_group

MAX_PARALLELISM = 128


def make_route(kind: PartitionKind, targets: int, *, sender: int = 0, senders: int = 1, **more: Any) -> Route:
    route = route_for(Partitioning(kind, **more), "operator 'next'", sender, senders, targets, MAX_PARALLELISM)
    route.begin_epoch("seed/1")
    return route


def dealt(route: Route, *batches: Batch) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for batch in batches:
        for target, values, timestamps, keys in route.deal(batch):
            found.setdefault(target, []).extend(values)
            assert timestamps is None or len(timestamps) == len(values)
            assert keys is None or len(keys) == len(values)
    return found


NUMBERS = list(range(1000))


@pytest.mark.parametrize("kind", [PartitionKind.REBALANCE, PartitionKind.RESCALE, PartitionKind.SHUFFLE])
@pytest.mark.parametrize("targets", [1, 2, 3, 7, 300])
def test_spreading_routes_lose_nothing_and_are_even(kind: PartitionKind, targets: int) -> None:
    found = dealt(make_route(kind, targets), Batch(NUMBERS[:501]), Batch(NUMBERS[501:]))
    assert sorted(value for values in found.values() for value in values) == NUMBERS
    assert set(found) <= set(range(targets))
    if kind is not PartitionKind.SHUFFLE:
        sizes = [len(found.get(target, ())) for target in range(targets)]
        assert max(sizes) - min(sizes) <= 1
    elif targets < 10:
        assert min(map(len, found.values())) > 1000 / targets / 2


@pytest.mark.parametrize("kind", [PartitionKind.REBALANCE, PartitionKind.SHUFFLE])
def test_a_rerun_deals_as_before_and_another_epoch_otherwise(kind: PartitionKind) -> None:
    route = make_route(kind, 4)
    first = dealt(route, Batch(NUMBERS))
    route.begin_epoch("seed/1")
    assert dealt(route, Batch(NUMBERS)) == first
    others = []
    for epoch in range(2, 6):
        route.begin_epoch(f"seed/{epoch}")
        others.append(dealt(route, Batch(NUMBERS)))
    assert any(other != first for other in others)


def test_small_epochs_are_spread_over_all_targets() -> None:
    route = make_route(PartitionKind.REBALANCE, 3)
    seen: Counter[int] = Counter()
    for epoch in range(60):
        route.begin_epoch(f"job/{epoch}/0/0")
        seen.update(list(dealt(route, Batch(["x"]))))
    assert set(seen) == {0, 1, 2}


def test_timestamps_go_with_their_records() -> None:
    for kind in (PartitionKind.REBALANCE, PartitionKind.SHUFFLE, PartitionKind.GLOBAL):
        for _, values, timestamps, _ in make_route(kind, 3).deal(Batch(NUMBERS, [-n for n in NUMBERS])):
            assert timestamps == [-n for n in values]


@pytest.mark.parametrize(
    ("senders", "targets", "expected"),
    [
        (1, 3, [[0, 1, 2]]),
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [0], [1], [1]]),
        (3, 3, [[0], [1], [2]]),
        (2, 3, [[0], [1, 2]]),
        (3, 2, [[0], [0], [1]]),
    ],
)
def test_rescale_serves_neighbours(senders: int, targets: int, expected: list[list[int]]) -> None:
    found = [rescale_targets(sender, senders, targets) for sender in range(senders)]
    assert found == expected
    assert {target for group in found for target in group} == set(range(targets))


def test_fixed_routes() -> None:
    assert dealt(make_route(PartitionKind.GLOBAL, 4), Batch([1, 2])) == {0: [1, 2]}
    assert dealt(make_route(PartitionKind.FORWARD, 4, sender=2, senders=4), Batch([1])) == {2: [1]}
    with pytest.raises(GraphError, match="equal parallelism"):
        make_route(PartitionKind.FORWARD, 2, sender=2, senders=3)


@pytest.mark.parametrize("targets", [1, 2, 5, 128])
def test_keys_go_to_the_subtask_that_owns_their_group(targets: int) -> None:
    route = make_route(PartitionKind.KEY_GROUP, targets, selector=lambda n: f"key {n % 50}")
    found = dealt(route, Batch(NUMBERS))
    for target, values in found.items():
        for value in values:
            group = key_group_of(f"key {value % 50}", MAX_PARALLELISM)
            assert subtask_for_group(group, MAX_PARALLELISM, targets) == target
        assert values == sorted(values)


def test_keys_travel_unless_they_are_a_field() -> None:
    by_function = make_route(PartitionKind.KEY_GROUP, 2, selector=lambda r: r[0])
    by_position = make_route(PartitionKind.KEY_GROUP, 2, selector=PositionSelector(0))
    batch = Batch([("a", 1), ("b", 2), ("c", 3)])
    assert all(keys == [value[0] for value in values] for _, values, _, keys in by_function.deal(batch))
    assert all(keys is None for _, _, _, keys in by_position.deal(batch))


@pytest.mark.parametrize("selector", [lambda r: r, PositionSelector(0)])
def test_a_key_that_is_none_is_an_error_with_the_operator(selector: Any) -> None:
    route = make_route(PartitionKind.KEY_GROUP, 2, selector=selector)
    with pytest.raises(InvalidKeyError, match=r"key_by before operator 'next'.*list"):
        dealt(route, Batch([[[1]]]))


def test_errors_of_key_selectors() -> None:
    with pytest.raises(UserCodeError, match=r"(?s)ZeroDivisionError.*key selector before op.*record 0") as caught:
        key_extractor("op", lambda n: 1 // n)([1, 0, 2])
    assert str(caught.value).startswith("Traceback")
    with pytest.raises(InvalidKeyError, match=r"key_by before op: key_by\('id'\)"):
        key_extractor("op", FieldSelector("id"))([{"id": 1}, {"name": 2}])


def test_custom_routes() -> None:
    route = make_route(PartitionKind.CUSTOM, 3, selector=lambda n: n, custom=lambda key, count: key % count)
    assert dealt(route, Batch(list(range(6)))) == {0: [0, 3], 1: [1, 4], 2: [2, 5]}
    for bad in (3, -1, "0", None, True):
        route = make_route(PartitionKind.CUSTOM, 3, selector=lambda n: n, custom=lambda key, count, bad=bad: bad)
        with pytest.raises(GraphError, match=r"operator 'next' returned .* for key 7"):
            dealt(route, Batch([7]))


# --- senders


class Sent:
    """What a sender shipped, by target partition."""

    def __init__(self) -> None:
        self.parcels: list[tuple[Header, bytes]] = []

    def ship(self, header: Header, parcel: bytes) -> None:
        assert Header.unpack(parcel).target == header.target
        self.parcels.append((Header.unpack(parcel), parcel[HEADER_SIZE:]))

    def of(self, target: int, kind: ParcelKind = ParcelKind.DATA) -> list[tuple[Header, bytes]]:
        return [(header, data) for header, data in self.parcels if header.target == target and header.kind is kind]


def make_sender(
    sent: Sent,
    kind: PartitionKind = PartitionKind.REBALANCE,
    targets: int = 2,
    *,
    dealt: bool = False,
    **more: Any,
) -> EdgeSender:
    sender = EdgeSender(
        edge=4,
        origin="operator 'map'",
        route=make_route(kind, targets, **more),
        broadcast=kind is PartitionKind.BROADCAST,
        sender=1,
        level=2,
        partitions=[10 + target for target in range(targets)],
        parcel_size=1 << 20,
        dealt=dealt,
    )
    sender.begin_epoch(b"attempt-" * 2, 5, "seed", sent.ship)
    return sender


def test_every_target_gets_the_end_and_how_much_it_was_sent() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 3)
    sender.send(Batch([1, 2, 3]))
    sender.watermark(9)
    sender.finish()
    ends = {header.target: header for header, _ in sent.parcels if header.kind is ParcelKind.END}
    assert {target: header.seq for target, header in ends.items()} == {10: 1, 11: 0, 12: 0}
    for header in ends.values():
        assert (header.edge, header.level, header.sender, header.watermark) == (4, 2, 1, 9)
        assert header.attempt == b"attempt-attempt-"


def test_marks_say_where_time_moved() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1)
    sender.watermark(6)
    sender.send(Batch(["a", "b"], [1, 2]))
    sender.watermark(7)
    sender.watermark(8)
    sender.send(Batch(["c"]))
    sender.watermark(9)
    sender.finish()
    ((header, payload),) = sent.of(10)
    assert header.watermark == 6
    assert decode_records(payload) == (["a", "b", "c"], [1, 2, None], None, [(2, 8), (3, 9)])


def test_full_parcels_leave_early_and_begin_with_the_time_they_were_started_at() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1)
    sender.send(Batch(list(range(3000))))
    assert len(sent.of(10)) == 1
    sender.watermark(50)
    sender.send(Batch([1]))
    sender.finish()
    assert [(header.seq, header.watermark) for header, _ in sent.of(10)] == [(0, 5), (1, 50)]


def test_large_records_make_small_parcels() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1)
    for _ in range(4):
        sender.send(Batch([b"x" * 300_000] * 2048))
        break
    for _ in range(8):
        sender.send(Batch([b"x" * 300_000]))
    sender.finish()
    later = [len(data) for header, data in sent.of(10) if header.seq > 0]
    assert max(later) < 1 << 20


def test_a_record_larger_than_a_parcel_is_split() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1)
    sender.send(Batch([b"x" * (3 << 20)]))
    sender.finish()
    parts = sent.of(10)
    assert [header.part for header, _ in parts] == list(range(parts[0][0].parts))
    assert len(parts) == 4
    assert decode_records(b"".join(data for _, data in parts))[0] == [b"x" * (3 << 20)]


def test_broadcast_encodes_once_and_reaches_all() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.BROADCAST, 3)
    sender.send(Batch([1, 2]))
    sender.finish()
    payloads = [sent.of(10 + target)[0][1] for target in range(3)]
    assert payloads[0] == payloads[1] == payloads[2]
    assert [header.seq for header, _ in sent.parcels if header.kind is ParcelKind.END] == [1, 1, 1]


def test_a_new_epoch_starts_from_scratch() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1)
    sender.send(Batch([1]))
    again = Sent()
    sender.begin_epoch(b"other-attempt-16", 7, "seed", again.ship)
    sender.finish()
    assert [(header.kind, header.seq, header.watermark) for header, _ in again.parcels] == [(ParcelKind.END, 0, 7)]


@pytest.mark.parametrize("kind", [PartitionKind.REBALANCE, PartitionKind.BROADCAST])
def test_idleness_is_sent_at_once_and_with_the_end(kind: PartitionKind) -> None:
    sent = Sent()
    sender = make_sender(sent, kind)
    sender.send(Batch([1, 2], [1, 2]))
    sender.watermark_status(True)
    sender.watermark(9)
    sender.watermark_status(False)
    sender.watermark_status(True)
    sender.finish()
    for target in (10, 11):
        told = [(header.seq, header.idle, len(decode_records(data)[0])) for header, data in sent.of(target)]
        records = 2 if kind is PartitionKind.BROADCAST else 1
        assert told == [(0, False, records), (1, True, 0), (2, False, 0), (3, True, 0)]
        [(end, _)] = sent.of(target, ParcelKind.END)
        assert (end.idle, end.seq, end.watermark) == (True, 4, 9)


def test_an_epoch_begins_as_active() -> None:
    sent = Sent()
    sender = make_sender(sent)
    sender.watermark_status(True)
    sender.finish()
    sender.begin_epoch(b"attempt-" * 2, 5, "seed", sent.ship)
    sender.finish()
    assert [header.idle for header, _ in sent.of(10, ParcelKind.END)] == [True, False]


# --- strands


def test_each_strand_is_a_channel_with_a_time_of_its_own() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 2, dealt=True)
    sender.progress(Strand(1, "p"), 5)
    sender.send(Batch(["a"], [10]))
    sender.progress(Strand(2, "q"), 7)
    sender.send(Batch(["x"], [8]))
    sender.progress(Strand(1, "p"), 9)
    sender.send(Batch(["b"], [20]))
    sender.progress(Strand(1, "p"), 19)
    sender.watermark(99)
    sender.partition_ends([PartitionEnd("p", 19, False), PartitionEnd("q", 7, True)])
    sender.finish()
    assert [(h.strand, h.seq, h.watermark, decode_records(data)[::3]) for h, data in sent.of(10)] == [
        (1, 0, 5, (["a", "b"], [(1, 9), (2, 19)])),
        (2, 0, 7, (["x"], None)),
    ], "what the chain itself says of time is not for a strand"
    [(header, data)] = sent.of(10, ParcelKind.OPEN)
    assert header.watermark == 5, "where the epoch began"
    opening = Opening.unpack(data)
    assert opening.strands == [SentStrand(0, None, 0, 5), SentStrand(1, "p", 1, 5), SentStrand(2, "q", 1, 7)]
    assert opening.ends == [PartitionEnd("p", 19, False), PartitionEnd("q", 7, True)]
    [(_, elsewhere)] = sent.of(11, ParcelKind.OPEN)
    assert [strand.parcels for strand in Opening.unpack(elsewhere).strands] == [0, 0, 0], "all targets get them"
    assert [header.seq for header, _ in sent.of(10, ParcelKind.END)] == [2]


def test_the_shared_strand_has_no_time_of_its_own() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1, dealt=True)
    sender.progress(Strand(1, "p"), 6)
    sender.progress(Strand(0, "q"), 70)
    sender.send(Batch(["a"], [10]))
    sender.progress(Strand(0, "r"), 80)
    sender.partition_ends([])
    sender.finish()
    assert [(header.strand, header.watermark) for header, _ in sent.of(10)] == [(0, 5)]
    [(_, data)] = sent.of(10, ParcelKind.OPEN)
    assert Opening.unpack(data).strands[0] == SentStrand(0, None, 1, 5)


def test_records_of_an_unknown_file_are_reported_also_when_all_partitions_have_ended() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 2, dealt=True)
    sender.send(Batch(["a"], [10]))
    sender.partition_ends([])
    sender.finish()
    [(_, data)] = sent.of(10, ParcelKind.OPEN)
    assert Opening.unpack(data).strands == [SentStrand(0, None, 1, 5)], "or other senders' time would make them late"
    assert not sent.of(11, ParcelKind.OPEN), "there is nothing to tell"


def test_without_event_time_no_strands_are_sent() -> None:
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1, dealt=True)
    sender.progress(Strand(1), 5)
    sender.send(Batch(["a"]))
    sender.watermark_status(True)
    sender.finish()
    assert not sent.of(10, ParcelKind.OPEN)
    assert [header.seq for header, _ in sent.of(10, ParcelKind.END)] == [1]


def test_what_waits_of_many_strands_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.runtime.exchange.sender._MOST_WAITING", 10)
    sent = Sent()
    sender = make_sender(sent, PartitionKind.GLOBAL, 1, dealt=True)
    for number in range(1, 8):
        sender.progress(Strand(number), 5)
        sender.send(Batch(["a", "b"]))
    assert [header.strand for header, _ in sent.of(10)] == [1, 2, 3, 4, 5]
    sender.finish()
    assert sum(len(decode_records(data)[0]) for _, data in sent.of(10)) == 14
