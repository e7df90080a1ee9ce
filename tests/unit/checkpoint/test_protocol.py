"""The decisions about one epoch: publish or run again, what the manifest says, whether a batch is a replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.checkpoint.examples import ack, full_manifest, piece
from tidemill.checkpoint.model import Ack, Attempt, Epoch, Lineage, Manifest, RunRef, Slot, SubtaskId
from tidemill.checkpoint.protocol import Publish, Rerun, Verdict, build_manifest, judge, should_skip
from tidemill.errors import CheckpointError
from tidemill.state.keys.key_groups import Subtask

EXPECTED = {"source": 2, "count": 2, "sink": 1}
EDGES = [("source", "count"), ("count", "sink"), ("source", "sink")]
HEAD = Manifest("takeover", "job", Lineage("000000000001-a"), Slot(1), Epoch(0))


def consistent() -> list[Ack]:
    """All acks of an epoch without incident."""
    senders = {"count": ["source"], "sink": ["count", "source"]}
    return [
        ack(
            chain,
            subtask,
            consumed={
                SubtaskId(sender, Subtask(n)): Attempt(f"{sender}{n}")
                for sender in senders.get(chain, [])
                for n in range(EXPECTED[sender])
            },
        )
        for chain, parallelism in EXPECTED.items()
        for subtask in range(parallelism)
    ]


def verdict(acks: list[Ack]) -> Verdict:
    return judge(EXPECTED, EDGES, acks, epoch=Epoch(1), rerun=0)


def reason(acks: list[Ack]) -> str:
    decision = verdict(acks)
    assert isinstance(decision, Rerun)
    return decision.reason


def published(acks: list[Ack], expected: dict[str, int]) -> Publish:
    decision = judge(expected, [], acks, epoch=Epoch(1), rerun=0)
    assert isinstance(decision, Publish)
    return decision


@given(st.permutations(consistent()))
def test_consistent_acks_are_published_whatever_their_order(acks: list[Ack]) -> None:
    decision = verdict(acks)
    assert isinstance(decision, Publish)
    assert [(a.subtask.chain, a.subtask.subtask) for a in decision.acks] == [
        ("count", 0), ("count", 1), ("sink", 0), ("source", 0), ("source", 1),
    ]  # fmt: skip
    assert decision.parallelism == EXPECTED


def test_an_epoch_without_exchanges() -> None:
    assert isinstance(judge({"all": 1}, [], [ack("all", 0)], epoch=Epoch(1), rerun=0), Publish)
    assert isinstance(judge({}, [], [], epoch=Epoch(1), rerun=0), Publish)


def test_a_missing_ack() -> None:
    assert reason(consistent()[1:]) == "source[0] did not ack"
    assert reason([]) == "count[0] did not ack, nor did 4 more"


def test_two_attempts_that_both_acked() -> None:
    acks = consistent()
    assert (
        reason([*acks, replace(acks[0], attempt=Attempt("twin"))])
        == "source[0] acked twice, as attempts source0 and twin"
    )
    assert "acked twice" in reason([*acks, acks[0]])


@pytest.mark.parametrize(("chain", "number"), [("source", 2), ("source", -1), ("other", 0)])
def test_an_ack_of_a_stranger(chain: str, number: int) -> None:
    acks = consistent()
    assert reason([*acks, replace(acks[0], subtask=SubtaskId(chain, Subtask(number)))]).endswith(
        "is not a subtask of this epoch"
    )


@pytest.mark.parametrize("change", [{"epoch": Epoch(2)}, {"epoch": Epoch(0)}, {"rerun": 1}])
def test_an_ack_of_another_epoch_or_run(change: dict[str, Epoch]) -> None:
    acks = consistent()
    acks[0] = replace(acks[0], **change)  # type: ignore[arg-type]
    assert reason(acks).endswith("not epoch 1 rerun 0")


def test_a_receiver_that_read_another_attempt_than_the_one_acked() -> None:
    """F2: the twin of source[0] acked, but count[1] had read the first attempt's parcels."""
    acks = consistent()
    acks[0] = replace(acks[0], attempt=Attempt("twin"))
    assert reason(acks) == "count[0] consumed attempt source0 of source[0], but attempt twin acked"


@given(st.integers(0, 4), st.data())
def test_any_single_deviation_in_what_was_consumed_means_rerun(index: int, data: st.DataObject) -> None:
    acks = consistent()
    consumed = dict(acks[index].consumed)
    if consumed:
        sender = data.draw(st.sampled_from(sorted(consumed, key=str)))
        if data.draw(st.booleans()):
            del consumed[sender]
        else:
            consumed[sender] = Attempt("other")
    else:
        consumed[SubtaskId("count", Subtask(0))] = Attempt("count0")
    acks[index] = replace(acks[index], consumed=consumed)
    assert isinstance(verdict(acks), Rerun)


def test_a_receiver_that_missed_a_sender_or_heard_a_stranger() -> None:
    acks = consistent()
    acks[2] = replace(acks[2], consumed={SubtaskId("source", Subtask(0)): Attempt("source0")})
    assert reason(acks) == "count[0] consumed nothing from source[1]"
    acks = consistent()
    acks[2] = replace(acks[2], consumed={**acks[2].consumed, SubtaskId("sink", Subtask(0)): Attempt("sink0")})
    assert reason(acks) == "count[0] consumed from sink[0], which does not feed it"


def test_edges_of_unknown_chains_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(CheckpointError, match=r"does not run: \['nowhere'\]"):
        judge(EXPECTED, [("nowhere", "sink")], consistent(), epoch=Epoch(1), rerun=0)


def test_the_manifest_of_the_first_epoch() -> None:
    acks = [
        replace(
            ack("c", n, pieces=[piece(b"x" * (n + 1), subtask=n)]),
            watermark=10 + n,
            next_timer=None if n == 0 else 100 * n,
            committables={"sink": (b"%d" % n,), "silent": ()},
        )
        for n in range(3)
    ]
    manifest = build_manifest(
        HEAD, published(acks, {"c": 3}), clock=5, operators={"c": 1}, max_parallelism={"c": 8}, metrics={"took": 0.5}
    )
    assert manifest == Manifest(
        kind="epoch",
        job_id="job",
        lineage=HEAD.lineage,
        slot=Slot(2),
        epoch=Epoch(1),
        clock=5,
        parallelism={"c": 3},
        max_parallelism={"c": 8},
        attempts={"c": (Attempt("c0"), Attempt("c1"), Attempt("c2"))},
        watermarks={"c": (10, 11, 12)},
        next_timer=100,
        pieces=tuple(piece(b"x" * (n + 1), subtask=n) for n in range(3)),
        runs=(RunRef(Epoch(1), slot=Slot(2), bytes=6),),
        committables={"sink": {0: (b"0",), 1: (b"1",), 2: (b"2",)}},
        operators={"c": 1},
        metrics={"took": 0.5},
    )


def test_an_empty_epoch_adds_no_run_and_keeps_the_rest() -> None:
    head = replace(full_manifest(), kind="takeover", lineage=HEAD.lineage)
    publish = Publish(Epoch(9), 0, {"c": 1}, (ack("c", 0, epoch=9),))
    manifest = build_manifest(head, publish, clock=6)
    assert manifest.runs == head.runs
    assert (manifest.sources, manifest.spark, manifest.max_parallelism, manifest.checkpoints) == (
        head.sources, head.spark, head.max_parallelism, head.checkpoints,
    )  # fmt: skip
    assert (manifest.committables, manifest.next_timer, manifest.pieces, manifest.finished) == ({}, None, (), False)
    changed = build_manifest(head, publish, clock=6, sources={}, spark={"batch_id": 4}, finished=True)
    assert (changed.sources, changed.spark, changed.finished) == ({}, {"batch_id": 4}, True)


def test_the_operators_are_described_once() -> None:
    def after(head: Manifest, **options: object) -> Manifest:
        publish = Publish(Epoch(head.epoch + 1), 0, {}, ())
        return build_manifest(head, publish, clock=0, **options)  # type: ignore[arg-type]

    nothing = after(HEAD)
    assert (nothing.operators, nothing.operators_slot) == ({}, None)
    first = after(HEAD, operators={"a": 1})
    assert (first.operators, first.operators_slot) == ({"a": 1}, None)
    second, third = after(first), after(after(first))
    assert (second.operators, second.operators_slot) == ({}, 2)
    assert (third.operators, third.operators_slot) == ({}, 2)
    changed = after(third, operators={"a": 2})
    assert (changed.operators, changed.operators_slot) == ({"a": 2}, None)
    assert after(changed).operators_slot == changed.slot


def test_checkpoints_are_retained_by_number() -> None:
    head = HEAD
    for checkpoint in (True, False, True, True):
        publish = Publish(Epoch(head.epoch + 1), 0, {}, ())
        head = build_manifest(head, publish, clock=0, checkpoint=checkpoint, retain=2)
    assert head.checkpoints == (4, 5)


def test_the_result_of_a_compaction_is_taken_over() -> None:
    runs = (RunRef(Epoch(0), snapshot="s"),)
    manifest = build_manifest(HEAD, published([ack("c", 0, pieces=[piece()])], {"c": 1}), clock=0, runs=runs)
    assert manifest.runs == (*runs, RunRef(Epoch(1), slot=Slot(2), bytes=5))


def test_mistakes_of_the_caller() -> None:
    with pytest.raises(CheckpointError, match="epoch 3 cannot follow epoch 0"):
        build_manifest(HEAD, Publish(Epoch(3), 0, {}, ()), clock=0)
    with pytest.raises(CheckpointError, match="at least one"):
        build_manifest(HEAD, Publish(Epoch(1), 0, {}, ()), clock=0, retain=0)
    twice = [replace(ack(chain, 0), committables={"sink": (b"",)}) for chain in ("a", "b")]
    with pytest.raises(CheckpointError, match="sink sink has committables of two chains"):
        build_manifest(HEAD, published(twice, {"a": 1, "b": 1}), clock=0)


def test_replayed_batches() -> None:
    head = replace(HEAD, spark={"batch_id": 5, "offsets": "v1\n{}"})
    assert should_skip(head, 5, "v1\n{}")
    assert should_skip(head, 4, "anything")
    assert should_skip(head, 0, "anything")
    assert not should_skip(head, 6, "v1\n{}")
    with pytest.raises(CheckpointError, match="replays batch 5 with other offsets"):
        should_skip(head, 5, "v1\n{} ")
    for gap in (7, 100, -1):
        with pytest.raises(CheckpointError, match="batch 5 is the last one committed"):
            should_skip(head, gap, "")


@pytest.mark.parametrize("head", [None, HEAD, replace(HEAD, spark={}), replace(HEAD, spark={"batch_id": None})])
def test_the_first_batch(head: Manifest | None) -> None:
    assert not should_skip(head, 0, "x")
    with pytest.raises(CheckpointError, match="no batch has been committed"):
        should_skip(head, 1, "x")
