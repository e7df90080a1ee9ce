"""Delivers results to Kafka exactly once: one transaction per subtask and epoch, which also contains a marker.

Kafka cannot commit a transaction that another process has begun, and a crash ends it. The results of an epoch are
therefore written to the write-ahead log first (:mod:`tidemill.connectors.write_ahead_log`). After the manifest is
durable, they are delivered by a producer whose transactional id belongs to the sink's subtask:

1. **Initialize** the producer. The broker finishes the transactions of earlier producers with the same id: a
   transaction that was being committed is completed, an open one is aborted. From then on, no earlier producer with the
   id can commit.
2. **Read the marker**: the offset that a consumer group of the subtask has committed. It exists if, and only if, the
   transaction that wrote it was committed. If the marker covers the epoch, there is nothing to do.
3. **Write** the marker, and all records in order, in one transaction.
4. **Commit** the transaction.

This is exactly-once for the following reason. Between steps 1 and 4 of a process, no other process can write the
marker. Another process must have initialized a producer with the same id. If it did so later, the commit in step 4
fails; if it did so earlier, it was fenced off in step 1. The marker read in step 2 is therefore still current at the
time of the commit, and of all processes that try to deliver an epoch, only one succeeds. In detail:

- Killed before step 4: the transaction is aborted by the next step 1, or when it times out. Its records were never
  visible. If a broker is restarted in the meantime, the process waits for it; if that does not help, it starts again
  with step 1.
- Killed in step 4, or no response to it: the next step 1 waits for the outcome, and step 2 reads it.
- Killed after step 4, before the driver is notified: the next process finds the marker.
- Two drivers at the same time: the one that initializes last delivers. The other one is fenced off, and then finds the
  marker. A superseded driver that is late finds a marker of a later lineage or epoch, which covers its own.
- Driver and worker, or two workers, in turn: a producer that stays open between epochs is fenced off by the other one.
  It is created again, which is step 1.
- A repeated epoch number: markers are stored per history of the job, so those of other histories have no effect. Within
  a history, a job that was reset to an earlier checkpoint has a later lineage, which no earlier marker covers.
- A different parallelism: the results of an epoch are delivered by the subtask numbers that it ran with. An open
  transaction belongs to the last epoch, which is delivered again, with its own subtask numbers, before any other.

As long as a producer stays open and is not fenced off, it knows the current marker without reading it.

Readers with ``isolation.level=read_committed`` see each epoch of a subtask as a whole, once it is delivered.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tidemill.connectors.kafka.client import (
    TRANSACTION_TIMEOUT,
    Complaints,
    KafkaClients,
    check_reachable,
)
from tidemill.connectors.kafka.producer_records import ProducerColumns
from tidemill.connectors.write_ahead_log import Delivery, Destination, DestinationContext, Mark
from tidemill.errors import ConfigurationError, ConnectorError
from tidemill.faults import reach

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

log = logging.getLogger(__name__)

#: Kafka's default of ``offsets.retention.minutes``, used if the broker's setting cannot be read.
_RETENTION_MINUTES: Final = 7 * 24 * 60
#: The maximum assumed clock difference, and the maximum interval at which a broker removes expired markers.
_MARGIN_MINUTES: Final = 60
_PARTITION_OF_MARKERS: Final = 0
#: How long to wait for space in a producer's queue before trying again, in seconds.
_ROOM: Final = 0.002
_SECONDS_TO_ABORT: Final = 5.0
#: The number of attempts of a delivery: with the open producer, and with two new ones.
_TRIES: Final = 3
#: How long to wait before retrying a request to a coordinator that is not ready, in seconds.
_AGAIN: Final = 0.1


class ExpiredMarker(enum.Enum):
    """What to do about results whose marker may have expired (see :meth:`KafkaSinkBuilder.set_expired_marker`)."""

    FAIL = "fail"
    DELIVER = "deliver"
    SKIP = "skip"


@dataclass
class _Seat:
    """The current producer of a transactional id, and the mark of its last delivery."""

    producer: Producer
    group: Any
    complaints: Complaints
    mark: Mark | None


class _TryAgainError(Exception):
    """A transaction failed for a reason that a new producer may not have; ``told`` is the error to report."""

    def __init__(self, told: ConnectorError) -> None:
        self.told = told


class KafkaTransactions(Destination):
    """Delivers results in transactions, as the module docstring describes. Producers stay open, one per subtask."""

    def __init__(
        self, clients: KafkaClients, transactional_id_prefix: str | None, topic: str | None, expired: ExpiredMarker
    ) -> None:
        """Without a prefix, transactional ids begin with the id of the job."""
        # configuration
        self._clients = clients
        self._prefix = transactional_id_prefix
        self._topic = topic
        self._expired = expired
        # transient
        self._seats: dict[int, _Seat] = {}

    def open(self, context: DestinationContext) -> None:
        """Check before the job runs that the cluster is reachable, the topic exists, and transactions are allowed."""
        complaints = Complaints()
        producer = self._clients.producer(error_cb=complaints)
        check_reachable(self._clients, producer, complaints, () if self._topic is None else (self._topic,))
        longest = self._broker_setting("transaction.max.timeout.ms")
        if longest is not None and self._clients.transaction_timeout > longest:
            raise ConfigurationError(
                f"{TRANSACTION_TIMEOUT} is {self._clients.transaction_timeout}, but the brokers at "
                f"{self._clients.servers} allow at most {longest} (their transaction.max.timeout.ms): set the property "
                f"{TRANSACTION_TIMEOUT} of the sink to that or less"
            )

    def deliver(self, delivery: Delivery) -> None:
        """Write the records of a delivery in one transaction, unless the marker shows that they were delivered."""
        batches = _nonempty(delivery)
        first = next(batches, None)
        if first is None:
            return
        topic, batches = first.first_topic, chain((first,), batches)
        for tries in range(1, _TRIES + 1):
            try:
                self._deliver(self._seat(delivery, topic), delivery, topic, batches)
            except _TryAgainError as error:
                self._leave(delivery.subtask)
                if tries == _TRIES:
                    raise error.told from None
                log.info("attempt %d to deliver epoch %d failed: %s", tries, delivery.epoch, error.told)
                batches = _nonempty(delivery)
            except BaseException:
                self._give_up(delivery.subtask)
                raise
            else:
                return

    def close(self) -> None:
        """Close all producers."""
        for subtask in list(self._seats):
            self._leave(subtask)

    # -------------------------------------------------------------------------------------------------------- steps

    def _seat(self, delivery: Delivery, topic: str) -> _Seat:
        """Return the open producer of a subtask, or a new one, with the mark of the last delivery."""
        seat = self._seats.get(delivery.subtask)
        if seat is not None:
            seat.producer.poll(0)
            if seat.complaints.last is None:
                return seat
            self._leave(delivery.subtask)  # see _send_marker
        self._seats[delivery.subtask] = seat = self._take_seat(delivery, topic)
        return seat

    def _take_seat(self, delivery: Delivery, topic: str) -> _Seat:
        from confluent_kafka import KafkaException

        complaints = Complaints()
        producer = self._clients.transactional_producer(self._id(delivery), error_cb=complaints)
        check_reachable(self._clients, producer, complaints)
        try:
            producer.init_transactions(self._clients.patience)  # 1
        except KafkaException as error:
            raise self._clients.refused(
                f"cannot begin transactions with the transactional id {self._id(delivery)!r}", error
            ) from None
        consumer = self._clients.group(self._group(delivery))
        try:
            mark = self._read_mark(consumer, delivery, topic)  # 2
            seat = _Seat(producer, consumer.consumer_group_metadata(), complaints, mark)
        finally:
            consumer.close()
        if mark is None and delivery.again and self._may_have_expired(delivery):
            seat.mark = self._decided(delivery)
        producer.poll(0)
        complaints.last = None  # earlier errors have not prevented the initialization
        return seat

    def _deliver(self, seat: _Seat, delivery: Delivery, topic: str, batches: Iterator[ProducerColumns]) -> None:
        from confluent_kafka import KafkaException

        if delivery.covered_by(seat.mark):
            return
        producer = seat.producer
        try:
            reach("delivery.before")
            producer.begin_transaction()
            self._send_marker(seat, delivery, topic)  # 3
            for columns in batches:
                columns.produce(producer.produce, lambda: producer.poll(_ROOM))
            producer.flush()
            reach("delivery.written")
            producer.commit_transaction()  # 4; for as long as the transaction may last
            reach("delivery.after")
        except KafkaException as error:
            reason = _reason(producer, error.args[0])
            told = self._failed(delivery, reason, seat.complaints.last)
            raise _TryAgainError(told) if _is_passing(reason) else told from None
        seat.mark = delivery.mark

    def _send_marker(self, seat: _Seat, delivery: Delivery, topic: str) -> None:
        """Write the marker. Raises :class:`_TryAgainError` if it takes too long.

        The library (librdkafka 2.16) never returns from this call, regardless of its timeout, if the broker that
        coordinates the group was restarted after the producer looked it up. Therefore a producer that has reported any
        error is replaced before a transaction, the marker is written first, and the call is abandoned if it still
        hangs.
        """
        from confluent_kafka import TopicPartition

        mark = delivery.mark
        place = TopicPartition(topic, _PARTITION_OF_MARKERS, mark.epoch, mark.to_text())
        failures: list[Exception] = []

        def send() -> None:
            try:
                seat.producer.send_offsets_to_transaction([place], seat.group, self._clients.patience)
            except Exception as error:
                failures.append(error)

        sender = threading.Thread(target=send, name="tidemill-kafka-marker", daemon=True)
        sender.start()
        sender.join(self._clients.patience)
        if sender.is_alive():
            raise _TryAgainError(self._failed(delivery, "the marker could not be written", seat.complaints.last))
        for error in failures:
            raise error

    def _give_up(self, subtask: int) -> None:
        """Abort, so that readers need not wait for the timeout; if that fails, the next producer aborts it."""
        seat = self._seats.get(subtask)
        if seat is not None:
            with contextlib.suppress(Exception):
                seat.producer.abort_transaction(_SECONDS_TO_ABORT)
            self._leave(subtask)

    def _leave(self, subtask: int) -> None:
        seat = self._seats.pop(subtask, None)
        if seat is not None:
            with contextlib.suppress(Exception):
                seat.producer.purge(blocking=False)

    # ------------------------------------------------------------------------------------------------------ markers

    def _id(self, delivery: Delivery) -> str:
        prefix = f"tidemill-{delivery.job_id}" if self._prefix is None else self._prefix
        return f"{prefix}-{delivery.operator_uid}-{delivery.subtask}"

    def _group(self, delivery: Delivery) -> str:
        """Return the group whose offset is the marker. The prefix is not part of it, because it may change."""
        return f"tidemill-{delivery.job_id}-{delivery.operator_uid}-{delivery.subtask}-{delivery.mark.history}"

    def _read_mark(self, consumer: Any, delivery: Delivery, topic: str) -> Mark | None:
        from confluent_kafka import KafkaException, TopicPartition

        deadline = time.monotonic() + self._clients.patience
        while True:
            try:
                (found,) = consumer.committed([TopicPartition(topic, _PARTITION_OF_MARKERS)], self._clients.patience)
            except KafkaException as error:
                if _is_passing(error.args[0]) and time.monotonic() < deadline:
                    time.sleep(_AGAIN)
                    continue
                raise self._clients.refused(
                    f"the marker of {self._id(delivery)!r}, an offset of the consumer group "
                    f"{self._group(delivery)!r}, cannot be read",
                    error,
                ) from None
            return Mark.from_text(found.metadata) if found.offset >= 0 and found.metadata else None

    def _may_have_expired(self, delivery: Delivery) -> bool:
        minutes = self._broker_setting("offsets.retention.minutes") or _RETENTION_MINUTES
        kept = max(minutes / 2, minutes - _MARGIN_MINUTES)
        return time.time() * 1000 - delivery.written_at > kept * 60_000

    def _decided(self, delivery: Delivery) -> Mark | None:
        written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(delivery.written_at / 1000))
        story = (
            f"the results of epoch {delivery.epoch} of job {delivery.job_id!r}, subtask {delivery.subtask} of the sink "
            f"with uid {delivery.operator_uid!r}, were written at {written}. The marker that shows whether they were "
            "delivered to Kafka may have expired since (the brokers' offsets.retention.minutes)"
        )
        if self._expired is ExpiredMarker.FAIL:
            raise ConnectorError(
                f"{story}. Check the end of the topic at {self._clients.servers}, and start the job with "
                "set_expired_marker(ExpiredMarker.SKIP) on the sink's builder if they were delivered, or "
                "ExpiredMarker.DELIVER if not"
            )
        log.warning("%s. The sink's policy for expired markers is: %s", story, self._expired.value)
        return delivery.mark if self._expired is ExpiredMarker.SKIP else None

    def _broker_setting(self, name: str) -> int | None:
        """Return a numeric setting of a broker, or None if it cannot be read."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # it is public

        admin = self._clients.admin()
        try:
            brokers = admin.list_topics(timeout=self._clients.patience).brokers
            wanted = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
            answers = admin.describe_configs([wanted], request_timeout=self._clients.patience)
            found = answers[wanted].result(self._clients.patience).get(name)
            return None if found is None or found.value is None else int(found.value)
        except (KafkaException, ValueError, TimeoutError) as error:
            log.info("cannot read the brokers' setting %s: %s", name, self._clients.hide(error))
            return None

    def _failed(self, delivery: Delivery, error: Any, complaint: KafkaError | None) -> ConnectorError:
        what = f"epoch {delivery.epoch} of {self._id(delivery)!r} was not delivered, or the outcome is unknown"
        if _is_fencing(error):
            return self._clients.refused(
                f"{what}: another process has begun to use this transactional id, or the transaction took longer than "
                f"{TRANSACTION_TIMEOUT}={self._clients.transaction_timeout}. If no other driver has taken over job "
                f"{delivery.job_id!r}, give each job its own transactional id prefix, or increase the timeout for an "
                f"epoch of {delivery.size:,} bytes",
                error,
            )
        trouble = "" if complaint is None else f". The client's last error: {complaint.str()}"
        return self._clients.refused(f"{what}; after a restart the marker determines the outcome{trouble}", error)


def _nonempty(delivery: Delivery) -> Iterator[ProducerColumns]:
    return (columns for columns in map(ProducerColumns.from_bytes, delivery.batches()) if len(columns))


def _reason(producer: Producer, error: KafkaError) -> KafkaError:
    """Return the cause of a fatal error of a producer: later calls only report that there was one, poll raises it."""
    from confluent_kafka import KafkaException

    if error.code() == error._FATAL:
        try:
            producer.poll(_AGAIN)
        except KafkaException as fatal:
            reason: KafkaError = fatal.args[0]
            return reason
    return error


def _is_fencing(error: Any) -> bool:
    code = getattr(error, "code", None)
    return code is not None and code() in (
        error._FENCED,
        error.PRODUCER_FENCED,
        error.INVALID_PRODUCER_EPOCH,
        error.INVALID_PRODUCER_ID_MAPPING,
    )


def _is_passing(error: KafkaError) -> bool:
    """Whether another attempt, with a new producer, may succeed."""
    passing = (
        error._TRANSPORT,
        error._ALL_BROKERS_DOWN,
        error._TIMED_OUT,
        error._MSG_TIMED_OUT,
        error._FATAL,
        error._STATE,
        error.NOT_COORDINATOR,
        error.COORDINATOR_NOT_AVAILABLE,
        error.COORDINATOR_LOAD_IN_PROGRESS,
        error.UNSTABLE_OFFSET_COMMIT,
        error.REQUEST_TIMED_OUT,
    )
    return _is_fencing(error) or error.retriable() or error.code() in passing
