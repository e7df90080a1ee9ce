"""Results to Kafka exactly once: one transaction per subtask and epoch, which also carries a marker of the epoch.

Kafka has no way to commit a transaction that another process has begun, and a crash ends it. So the results of an epoch
are in the write-ahead log first (:mod:`tidemill.connectors.write_ahead_log`), and after the manifest is durable they
are delivered by a producer whose transactional id belongs to the sink's subtask:

1. **initialise** the producer. The broker ends what an earlier producer of that id left: a transaction that was being
   committed is completed, an open one aborted. From here on no earlier producer of the id can commit anything;
2. **read the marker**: the offset that a consumer group of the subtask has committed. It is there if, and only if, the
   transaction that wrote it was committed. A marker that covers the epoch means that there is nothing to do;
3. **write** the marker, and all records in their order, in one transaction;
4. **commit** it.

Why this is exactly once. Between our step 1 and our step 4 no one else can have written the marker: who would, has
initialised a producer of the same id after us, and our commit fails; or before us, and was fenced off in step 1. So the
marker that we read is the marker at the moment of our commit, and of all processes that try to deliver one epoch, one
succeeds. Point by point:

- killed before 4: the transaction is aborted by the next step 1, or when it times out; its records were never visible.
  A broker that is restarted meanwhile is waited for, and where that does not help, all begins again with step 1;
- killed in 4, or no answer to it: the next step 1 waits for the outcome, and step 2 shows it;
- killed after 4, before the driver knows: the next one finds the marker;
- two drivers at once: whoever initialises last delivers, the other is fenced off, and after that finds the marker. A
  driver that was taken over and comes late finds a marker of a later lineage or epoch, which covers its own;
- driver and worker, or two workers, in turn: a producer that stays open between epochs is fenced off by the other; it
  is made anew, which is step 1 again;
- an epoch number that comes again: markers are kept by the job's history, so another one's count for nothing; within a
  history, a job that was taken back to an earlier checkpoint has a later lineage, which no earlier marker covers;
- another parallelism: the results of an epoch are the business of the subtask numbers that it ran with. A transaction
  that is open belongs to the last epoch, which is delivered again, with its own subtask numbers, before anything else.

While a producer stays open and is not fenced off, it knows the marker without asking.

Readers with ``isolation.level=read_committed`` see each epoch of a subtask whole, once it is delivered.
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

#: Kafka's own default of ``offsets.retention.minutes``, where the broker does not tell.
_RETENTION_MINUTES: Final = 7 * 24 * 60
#: Nobody's clock is off by more, nor does a broker look for expired markers less often.
_MARGIN_MINUTES: Final = 60
_PARTITION_OF_MARKERS: Final = 0
#: How long to wait for room in a producer's queue before looking again, in seconds.
_ROOM: Final = 0.002
_SECONDS_TO_ABORT: Final = 5.0
#: How often a delivery is tried: with the producer that is open, with a new one, and with another new one.
_TRIES: Final = 3
#: How long to wait before asking a coordinator again that is not ready, in seconds.
_AGAIN: Final = 0.1


class ExpiredMarker(enum.Enum):
    """What to do about results whose marker may have expired (see :meth:`KafkaSinkBuilder.set_expired_marker`)."""

    FAIL = "fail"
    DELIVER = "deliver"
    SKIP = "skip"


@dataclass
class _Seat:
    """A producer that is the only one of its transactional id, and what was delivered last with it."""

    producer: Producer
    group: Any
    complaints: Complaints
    mark: Mark | None


class _TryAgainError(Exception):
    """The transaction did not come about for a reason that may be gone with another producer; ``told`` says it all."""

    def __init__(self, told: ConnectorError) -> None:
        self.told = told


class KafkaTransactions(Destination):
    """Delivers results by transactions, as the module says. Producers stay open, one per subtask."""

    def __init__(
        self, clients: KafkaClients, transactional_id_prefix: str, topic: str | None, expired: ExpiredMarker
    ) -> None:
        # configuration
        self._clients = clients
        self._prefix = transactional_id_prefix
        self._topic = topic
        self._expired = expired
        # transient
        self._seats: dict[int, _Seat] = {}

    def open(self, context: DestinationContext) -> None:
        """Look at the cluster before anything runs: is it there, is the topic, and does it allow our transactions?"""
        complaints = Complaints()
        producer = self._clients.producer(error_cb=complaints)
        check_reachable(self._clients, producer, complaints, () if self._topic is None else (self._topic,))
        longest = self._broker_setting("transaction.max.timeout.ms")
        if longest is not None and self._clients.transaction_timeout > longest:
            raise ConfigurationError(
                f"{TRANSACTION_TIMEOUT} is {self._clients.transaction_timeout}, and the brokers at "
                f"{self._clients.servers} allow {longest} (their transaction.max.timeout.ms): set the property "
                f"{TRANSACTION_TIMEOUT} of the sink to that or less"
            )

    def deliver(self, delivery: Delivery) -> None:
        """Write the records of a delivery in one transaction, unless the marker says that they are there."""
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
                log.info("try %d to deliver epoch %d failed: %s", tries, delivery.epoch, error.told)
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
        """The producer that is open, or a new one, with what it knows to be delivered."""
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
            raise self._clients.refused(f"no transactions can be begun as {self._id(delivery)!r}", error) from None
        consumer = self._clients.group(self._group(delivery))
        try:
            mark = self._read_mark(consumer, delivery, topic)  # 2
            seat = _Seat(producer, consumer.consumer_group_metadata(), complaints, mark)
        finally:
            consumer.close()
        if mark is None and delivery.again and self._may_have_expired(delivery):
            seat.mark = self._decided(delivery)
        producer.poll(0)
        complaints.last = None  # what there was has not kept us from getting here
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

        The library (librdkafka 2.16) never returns from this call, whatever its timeout, if the broker that coordinates
        the group was restarted since the producer has asked for it. So a producer that has had any trouble is replaced
        before a transaction, the marker comes first in it, and the call is given up where it hangs nevertheless.
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
        """Abort, so that readers need not wait for the timeout; if that fails the next one who comes does it."""
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
        return f"{self._prefix}-{delivery.operator_uid}-{delivery.subtask}"

    def _group(self, delivery: Delivery) -> str:
        """The group whose offset is the marker: not by the prefix, so that one may change it between two runs."""
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
            f"with uid {delivery.operator_uid!r}, were written at {written}. The marker that would tell whether they "
            "are in Kafka may have expired since (the brokers' offsets.retention.minutes)"
        )
        if self._expired is ExpiredMarker.FAIL:
            raise ConnectorError(
                f"{story}. Look at the end of the topic at {self._clients.servers}, and start the job with "
                "set_expired_marker(ExpiredMarker.SKIP) on the sink's builder if they are there, or "
                "ExpiredMarker.DELIVER if not"
            )
        log.warning("%s: as the sink is told, %s", story, self._expired.value)
        return delivery.mark if self._expired is ExpiredMarker.SKIP else None

    def _broker_setting(self, name: str) -> int | None:
        """A number among the settings of a broker; None where we may not see it."""
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
            log.info("the brokers do not tell their %s: %s", name, self._clients.hide(error))
            return None

    def _failed(self, delivery: Delivery, error: Any, complaint: KafkaError | None) -> ConnectorError:
        what = f"epoch {delivery.epoch} of {self._id(delivery)!r} was not delivered, or it is not known whether it was"
        if _is_fencing(error):
            return self._clients.refused(
                f"{what}: another process has begun to use that transactional id, or the transaction took longer than "
                f"{TRANSACTION_TIMEOUT}={self._clients.transaction_timeout}. If no other driver has taken over job "
                f"{delivery.job_id!r}, give each job a transactional id prefix of its own, and an epoch of "
                f"{delivery.size:,} bytes the time that it needs",
                error,
            )
        trouble = "" if complaint is None else f". The last trouble of the client: {complaint.str()}"
        return self._clients.refused(f"{what}; after a restart the marker tells{trouble}", error)


def _nonempty(delivery: Delivery) -> Iterator[ProducerColumns]:
    return (columns for columns in map(ProducerColumns.from_bytes, delivery.batches()) if len(columns))


def _reason(producer: Producer, error: KafkaError) -> KafkaError:
    """What a producer has died of: a call that comes later is only told that it has, the next poll raises why."""
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
    """Whether another try, with another producer, may succeed."""
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
