"""One subtask of one epoch: reads its input, and emits its parcels and its ack.

Steps, in this order:

1. take the warm chain of this subtask if the head manifest names the attempt that last used it, otherwise build a chain
   and load the committed state;
2. begin the epoch: attach senders, and fire processing-time timers that are due;
3. read the input: splits of a source, or the parcels of all channels;
4. in the last epoch, advance event time to its end;
5. the barrier: operators finish, sinks prepare their commit, senders close their channels, functions update their
   operator state;
6. write the changes as a delta, inline if it is small;
7. in the last epoch, close the functions: one that fails to close fails the epoch, as any other method does;
8. send the ack to the driver, and keep the chain warm, unless it is closed.

An error of the program (a user function that raises, a record of the wrong type) ends the subtask: it sends a failure
report to the driver and closes the chain. All other errors are raised, so that the engine retries the task.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Final

from tidemill.checkpoint.model import Ack, Attempt, Epoch, Piece, SubtaskId
from tidemill.checkpoint.names import delta_name
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.transformations import PartitionKind
from tidemill.errors import CheckpointError, CorruptFileError, TidemillError
from tidemill.faults import reach
from tidemill.graph.plan import ExchangeEdge
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.failures import failure_of
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.exchange.inbox import Inbox, IncompleteInputError
from tidemill.runtime.exchange.outbox import Outbox
from tidemill.runtime.exchange.parcels import Header
from tidemill.runtime.exchange.routes import key_extractor, route_for
from tidemill.runtime.exchange.sender import EdgeSender
from tidemill.runtime.exchange.sorted_input import SortedInput
from tidemill.runtime.observe.log_place import PLACE
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.task.chain import Chain
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.pieces import store_sections
from tidemill.runtime.task.subtask_report import SubtaskReport, SubtaskTimes
from tidemill.runtime.task.warm import WarmChains
from tidemill.state.files.state_file import Section
from tidemill.state.keys.canonical_key import canonical_keys
from tidemill.state.keys.key_groups import Subtask, subtasks_of

#: The maximum number of rows of a columnar batch that are turned into objects at once.
_MOST_OBJECTS: Final = 8192


class EpochTask:
    """Runs the subtask at one partition of one level for one epoch."""

    def __init__(self, bundle: JobBundle, context: EpochContext, level: int, partition: int, warm: WarmChains) -> None:
        self._bundle = bundle
        self._context = context
        self._layout = Layout(bundle.plan, context.parallelism)
        self._level = level
        self._warm = warm
        self._attempt = uuid.uuid4()
        chain, self._subtask = self._layout.subtask(level, partition)
        self._plan = bundle.plan.chains[chain]
        self._edges_in = {edge.id: edge for edge in bundle.plan.edges_into(chain)}
        self._edges_out = bundle.plan.edges_from(chain)
        self._outbox = Outbox(context, self._layout, level, partition)
        self._consumed: dict[SubtaskId, Attempt] = {}
        self._records_in = 0
        self._bytes_in = 0
        self._cold = False

    def run(self, inputs: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield ``(sort key, parcel)`` pairs; on the last level the pairs are for the driver."""
        chain: Chain | None = None
        done = False
        times = SubtaskTimes()
        logged_at = PLACE.get()
        try:
            chain = self._obtain_chain()
            times.loaded = perf_counter_ns() - times.started
            for _ in self._process(chain, times.waiting(inputs), times):
                yield from times.sending(self._outbox.drain())
            ack = self._barrier(chain, times)
            # 7. and 8.
            if self._context.last:
                chain.close(forget=True)
            reach("ack.before")
            self._outbox.report(ack)
            if not self._context.last:
                self._warm.keep(self._bundle.job_id, chain, self._context, str(self._attempt))
            done = True
        except TidemillError as error:
            # A corrupt file stays corrupt; other checkpoint errors may not occur again on another worker.
            if isinstance(error, CheckpointError) and not isinstance(error, CorruptFileError):
                raise
            self._outbox.drop()
            self._report_failure(error)
        finally:
            if chain is not None and not done:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    chain.close()
            PLACE.set(logged_at)
        if self._level:
            # Parcels in transit to deeper levels must arrive even if this subtask failed; its own input is discarded.
            for _ in self._mine(inputs):
                pass
        yield from self._outbox.drain()

    def _report_failure(self, error: TidemillError) -> None:
        primary = not isinstance(error, IncompleteInputError)
        uid, epoch = self._plan.head.uid, self._context.epoch
        self._outbox.report(failure_of(error, uid, self._subtask, epoch=epoch, primary=primary))

    # 1.
    def _obtain_chain(self) -> Chain:
        context, subtask = self._context, self._subtask
        chain = self._warm.take(self._bundle.job_id, self._plan, subtask, context)
        if chain is None:
            self._cold = True
            out_edges: dict[int, list[tuple[int, str | None]]] = {}
            for edge in self._edges_out:
                out_edges.setdefault(edge.source_operator, []).append((edge.id, edge.side_output))
            chain = Chain(
                self._plan,
                out_edges,
                subtask,
                context.parallelism[self._plan.id],
                self._bundle.settings,
                self._bundle.chain_schema(self._plan.id),
            )
            chain.place_logs(context.job_id, context.epoch)
            try:
                self._set_clocks(chain)
                self._warm.load_state(self._bundle, chain, context)
                chain.open(context.epoch - 1 or None)
            except BaseException:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    chain.close()
                raise
        reach("state.loaded")
        return chain

    def _set_clocks(self, chain: Chain) -> None:
        clocks = {uid: marks[self._subtask] for uid, marks in self._context.watermarks.get(self._plan.id, {}).items()}
        chain.restore_watermarks(clocks.get(self._plan.head.uid, MIN_TIME), clocks)
        chain.set_processing_time(self._context.processing_time)
        times = self._context.times.get(self._plan.id, {})
        chain.restore_times({uid: states[self._subtask] for uid, states in times.items()})
        if self._plan.clock_of is ClockOf.PARTITION:
            chain.know_partitions(times)

    # 2. to 4.
    def _process(self, chain: Chain, inputs: Iterator[bytes], times: SubtaskTimes) -> Iterator[None]:
        context = self._context
        chain.look_at(context.unsteady)
        chain.place_logs(context.job_id, context.epoch)
        self._set_clocks(chain)
        self._attach_senders(chain)
        chain.begin_epoch(
            context.processing_time,
            {
                "job_id": context.job_id,
                "lineage": context.lineage,
                "history": context.history,
                "epoch": context.epoch,
                "attempt": self._attempt.hex,
                "processing_time": context.processing_time,
                "checkpoint": context.checkpoint,
                "next_checkpoint": context.next_checkpoint,
            },
            self._bundle.storage,
        )
        head = chain.head
        if isinstance(head, SourceOperator):
            head.reading = times.reading
            counts = head.consume(inputs)
        else:
            counts = self._read_parcels(chain, inputs)
        for count in counts:
            self._records_in += count
            reach("task.batch")
            yield
        over = context.last or self._plan.id in context.ended
        if over and isinstance(head, SourceOperator) and head.current_watermark < MAX_TIME:
            head.watermark(MAX_TIME)
            yield
        if context.last:
            chain.end_input()
            yield

    def _read_parcels(self, chain: Chain, inputs: Iterator[bytes]) -> Iterator[int]:
        head, keyed = chain.head, self._plan.head.keyed
        waiting = self._sorted_input(chain)
        receivers: dict[int, Callable[[Batch], None]] = {}
        for edge in self._edges_in.values():
            # Beside a keyed edge there may be a broadcast one, which is not held back.
            by_key = keyed and edge.kind is PartitionKind.KEY_GROUP
            process = waiting.add if by_key and waiting is not None else head.process
            receivers[edge.id] = self._receiver(chain, edge, process, by_key)

        def on_batch(edge: int, batch: Batch) -> None:
            receive = receivers[edge]
            if not isinstance(batch, ColumnBatch):
                receive(batch)
                return
            # As objects, records must fit the cache.
            rows = len(batch) if head.takes_columns else _MOST_OBJECTS
            for start in range(0, len(batch), rows):
                part = batch if rows >= len(batch) else batch.slice(start, min(start + rows, len(batch)))
                part.reader = head
                receive(part)

        inbox = Inbox(
            {edge.id: self._context.parallelism[edge.source_chain] for edge in self._edges_in.values()},
            self._context.watermark_base,
            head.current_watermark,
            on_batch,
            head.watermark if waiting is None else _ignored,
            head.watermark_status if waiting is None else _ignored,
            {edge.id for edge in self._edges_in.values() if self._is_dealt(edge)},
            {edge.id: edge.input_index for edge in self._edges_in.values()},
        )
        if waiting is None:
            yield from inbox.read(self._mine(inputs))
        else:
            yield from self._read_by_key(chain, inbox, waiting, inputs)
        for channel, attempt in inbox.attempts.items():
            sender = self._bundle.plan.chains[self._edges_in[channel.edge].source_chain].head.uid
            self._consumed[SubtaskId(sender, Subtask(channel.sender))] = Attempt(str(uuid.UUID(bytes=attempt)))

    def _is_dealt(self, edge: ExchangeEdge) -> bool:
        """Whether the input of an edge's senders is reassigned to them in each epoch."""
        return self._bundle.plan.chains[edge.source_chain].clock_of is not ClockOf.SUBTASK

    def _sorted_input(self, chain: Chain) -> SortedInput | None:
        """The buffer that collects and sorts the input of a keyed chain in BATCH mode; otherwise None."""
        head = self._plan.head
        if not head.keyed or self._bundle.settings.runtime_mode != "BATCH":
            return None
        return SortedInput(head.max_parallelism, self._bundle.sort_memory, chain.head.context.where)

    def _read_by_key(self, chain: Chain, inbox: Inbox, waiting: SortedInput, inputs: Iterator[bytes]) -> Iterator[int]:
        """Process the input key by key once it is complete; for each key, event time then advances to its end."""
        try:
            for _ in inbox.read(_measured(self._mine(inputs), waiting.grow)):
                yield 0
            for batches in waiting.key_groups():
                chain.process_keys(batches)
                yield sum(len(batch) for _, batch in batches)
        finally:
            waiting.close()
        chain.head.watermark(MAX_TIME)

    def _receiver(
        self, chain: Chain, edge: ExchangeEdge, process: Callable[[Batch, int], None], keyed: bool
    ) -> Callable[[Batch], None]:
        index = edge.input_index
        if not keyed:
            return lambda batch: process(batch, index)
        partitioning = chain.partitioning(edge)
        extract = key_extractor(self._plan.head.label, partitioning.selector, partitioning.key_type)
        sample = None if chain.key_sampler is None else chain.key_sampler.take

        def receive(batch: Batch) -> None:
            if not isinstance(batch, ColumnBatch) or batch.key is None:
                # Done by the receiver, not the sender: a NaN that arrives is not the object that was sent.
                batch.keys = canonical_keys(extract(batch.values) if batch.keys is None else batch.keys)
            if sample is not None:
                sample(batch.key_values or ())
            process(batch, index)

        return receive

    def _mine(self, inputs: Iterator[bytes]) -> Iterator[bytes]:
        """The parcels for this subtask; parcels for deeper levels are forwarded as they arrive."""
        for parcel in inputs:
            header = Header.unpack(parcel)
            if header.level == self._level:
                self._bytes_in += len(parcel)
                yield parcel
            else:
                self._outbox.pass_on(header, parcel)

    def _attach_senders(self, chain: Chain) -> None:
        context = self._context
        for edge in self._edges_out:
            target = self._bundle.plan.chains[edge.target_chain]
            port = chain.ports[edge.id]
            partitions = [self._layout.partition(target.id, s) for s in subtasks_of(context.parallelism[target.id])]
            if port.sender is None or port.sender.partitions != partitions:
                port.sender = self._make_sender(chain, edge, partitions)
            port.sender.begin_epoch(
                self._attempt.bytes,
                chain.operators[edge.source_operator].current_watermark,
                f"{context.job_id}/{context.epoch}",
                self._outbox.ship,
            )

    def _make_sender(self, chain: Chain, edge: ExchangeEdge, partitions: list[int]) -> EdgeSender:
        target = self._bundle.plan.chains[edge.target_chain]
        route = route_for(
            chain.partitioning(edge),
            target.head.label,
            self._subtask,
            self._context.parallelism[edge.source_chain],
            len(partitions),
            target.head.max_parallelism,
        )
        return EdgeSender(
            edge=edge.id,
            origin=chain.operators[edge.source_operator].context.where,
            route=route,
            broadcast=edge.kind is PartitionKind.BROADCAST,
            sender=self._subtask,
            level=target.level,
            partitions=partitions,
            parcel_size=self._bundle.parcel_size,
            dealt=self._is_dealt(edge),
        )

    # 5. and 6.
    def _barrier(self, chain: Chain, times: SubtaskTimes) -> Ack:
        chain.end_epoch()
        for edge in self._edges_out:
            chain.ports[edge.id].finish()
        chain.snapshot_state(self._context.epoch, self._context.processing_time)
        reach("delta.before")
        before = perf_counter_ns()
        pieces = self._write_delta(chain.export_delta())
        times.wrote = perf_counter_ns() - before
        reach("delta.after")
        context = self._context
        return Ack(
            subtask=SubtaskId(self._plan.head.uid, self._subtask),
            attempt=Attempt(str(self._attempt)),
            epoch=Epoch(context.epoch),
            rerun=context.rerun,
            consumed=self._consumed,
            pieces=pieces,
            watermark=chain.head.current_watermark,
            marks=chain.marks(),
            times=chain.times(),
            next_timer=chain.next_timer(),
            committables=chain.committables(),
            report=SubtaskReport.of(
                chain,
                times,
                leaving={edge.source_operator for edge in self._edges_out if edge.side_output is None},
                records_in=self._records_in,
                bytes_in=self._bytes_in,
                bytes_out=self._outbox.bytes,
                cold=self._cold,
                last=context.last,
            ),
        )

    def _write_delta(self, sections: list[Section]) -> tuple[Piece, ...]:
        uid = self._plan.head.uid
        piece = store_sections(
            self._bundle.storage,
            sections,
            subtask=self._subtask,
            chain=uid,
            name=delta_name(self._context.lineage, self._context.epoch, uid, self._subtask, self._attempt.hex),
            form=self._bundle.form,
        )
        return () if piece is None else (piece,)


def _ignored(watermark: int) -> None:
    """Ignore the watermarks of channels, which have no effect in BATCH mode."""


def _measured(parcels: Iterator[bytes], note: Callable[[int], None]) -> Iterator[bytes]:
    for parcel in parcels:
        note(len(parcel))
        yield parcel


def execute_subtask(
    bundle: JobBundle, context: EpochContext, level: int, partition: int, warm: WarmChains, inputs: Iterator[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Run one subtask; see :class:`EpochTask`."""
    return EpochTask(bundle, context, level, partition, warm).run(inputs)
