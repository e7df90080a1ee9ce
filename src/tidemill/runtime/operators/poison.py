"""Error policies (``on_error()``): operators that continue after a record at which their function raised.

A guarded operator first processes a batch as a whole, like any other operator. If its function raises, everything that
was done for the batch is undone: emitted records are dropped, and changes of state and timers are rolled back
(:mod:`tidemill.state.keyed.undo`). The records are then processed one by one. Only the call that raises is undone, and
its record is handled according to the policy of the operator. Attributes of the function object, and effects outside
the job, are not undone. Timers are always fired one by one.

A timer that raised counts as fired. If it is the end of a window, the window is removed nevertheless.

Failures that the record did not cause still fail the job: state that cannot be read or written, lack of memory, a
function that tries to end its process (``sys.exit``), and all failures in downstream operators.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any, Final

from tidemill.datastream.program.error_policy import ErrorPolicy, PoisonRecord
from tidemill.datastream.program.specs import BroadcastProcessSpec
from tidemill.datastream.time_domain import TimeDomain
from tidemill.errors import CheckpointError, GraphError, TidemillError, TypeMismatchError
from tidemill.runtime.batch.emitted import UnsteadyOutputError, are_fixed, is_immutable
from tidemill.runtime.batch.failures import message_of, user_traceback
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.keyed import KeyedOperator
from tidemill.runtime.operators.output import Output
from tidemill.state.keyed.timers import Timer
from tidemill.state.keyed.undo import UndoLog

log = logging.getLogger(__name__)

POISON_RECORDS: Final = "numPoisonRecords"

_Held = tuple[list[Any], list[int] | None]


class HeldOutput(Output):
    """An output that buffers records during a guarded call, until it is known whether they count."""

    def __init__(self, output: Output) -> None:
        """Replace an output that has no consumers yet."""
        super().__init__("", None)
        self._operator, self._shape, self._shape_side = output._operator, output._shape, output._shape_side
        self.emissions = output.emissions
        # transient
        self._holds = False
        self._held: list[tuple[str | None, list[Any], list[int] | None, bool]] = []
        self._kept = 0

    def hold(self) -> None:
        """Start to buffer records."""
        self._holds = True
        self._held, self._kept = [], 0

    def keep(self) -> None:
        """Keep the records that were emitted since the last call."""
        self._kept = len(self._held)

    def drop(self) -> None:
        """Discard the records that were emitted since the last call."""
        del self._held[self._kept :]

    def put_aside(self, tag: str, poison: PoisonRecord, timestamp: int | None) -> None:
        """Emit a poison record to a side output."""
        self._held.append((tag, [poison], None if timestamp is None else [timestamp], False))
        self.keep()

    def release(self) -> None:
        """Emit all kept records, and stop buffering."""
        self._holds = False
        held, self._held = self._held[: self._kept], []
        runs: dict[str | None, list[_Held]] = {}
        all_fixed = all(fixed for _, _, _, fixed in held)
        for tag, values, timestamps, _ in held:
            _append(runs.setdefault(tag, []), values, timestamps)
        for tag, batches in runs.items():
            for values, timestamps in batches:
                if tag is None:
                    super()._deliver(values, timestamps, all_fixed)
                else:
                    super()._deliver_side(tag, values, timestamps, all_fixed)

    def _deliver(self, values: list[Any], timestamps: list[int] | None, fixed: bool) -> None:
        if self._holds:
            self._held.append((None, values, timestamps, fixed))
        else:
            super()._deliver(values, timestamps, fixed)

    def _deliver_side(self, tag: str, values: list[Any], timestamps: list[int] | None, fixed: bool) -> None:
        if self._holds:
            self._held.append((tag, values, timestamps, fixed))
        else:
            super()._deliver_side(tag, values, timestamps, fixed)


def _append(batches: list[_Held], values: list[Any], timestamps: list[int] | None) -> None:
    """Append records to the last batch if both or neither have timestamps, else add a batch."""
    if batches:
        last, stamps = batches[-1]
        if stamps is None and timestamps is None:
            last += values
            return
        if stamps is not None and timestamps is not None:
            last += values
            stamps += timestamps
            return
    batches.append((list(values), None if timestamps is None else list(timestamps)))


def _is_no_fault_of_the_record(cause: BaseException) -> bool:
    no_fault = isinstance(cause, (CheckpointError, UnsteadyOutputError, MemoryError))
    return no_fault or not isinstance(cause, Exception)


class _OneTimer:
    """A queue that returns only one timer of another queue."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.timer: Timer | None = None

    def pop_due(self, time: int) -> Timer | None:
        if self.timer is not None:
            return None
        self.timer = self._queue.pop_due(time)
        return self.timer


class PoisonGuard:
    """Guards the calls of one operator instance.

    It is set up in two steps, so that changes of state are recorded from the start: ``PoisonGuard(context)`` before the
    operator is created, and :meth:`stand_before` afterwards.
    """

    def __init__(self, context: OperatorContext, policy: ErrorPolicy) -> None:
        # configuration
        self._context = context
        self._tag = None if policy.tag is None else policy.tag.tag_id
        self._poisoned = context.metrics.counter(POISON_RECORDS)
        self._undo = UndoLog()
        self._output = context.output = HeldOutput(context.output)
        if context.backend is not None:
            context.backend.note_changes_in(self._undo)
        # transient
        self._logged = False

    def stand_before(self, operator: Operator, spec: Any) -> None:
        """Guard an operator that was created with the context of this guard."""
        self._operator = operator
        self._broadcast = isinstance(spec, BroadcastProcessSpec)
        if self._broadcast and self._context.runtime_mode == "BATCH":
            raise GraphError(
                f"{self._context.where} cannot set failing records aside in BATCH mode, where its data side waits for "
                f"the broadcast side: remove on_error() (defined at {self._context.plan.user_line})"
            )
        self._process = operator.process
        operator.process = self.process  # type: ignore[method-assign]
        if isinstance(operator, KeyedOperator):
            self._fire = operator.fire
            operator.fire = self.fire  # type: ignore[method-assign]

    def process(self, batch: Batch, input_index: int) -> None:
        """Let the operator process a batch: as a whole or, if that fails, record by record."""
        self._output.hold()
        # A call that is undone may have changed its record, which is processed again.
        as_they_came = None if are_fixed(batch.values) else self._stored(batch.values)
        if len(batch) == 1 or not self._process_whole(batch, input_index):
            if as_they_came is not None:
                batch = Batch(as_they_came(), batch.timestamps, batch.keys)
            self._process_each(batch, input_index)
        self._output.release()

    def _stored(self, values: list[Any]) -> Callable[[], list[Any]]:
        """Return a function that returns copies of the current values. They are pickled, as they are rarely needed."""
        try:
            stored = pickle.dumps(values, 5)
        except Exception:  # for example, instances of a class of the main script
            copies = [self._output.emissions.copy(value) for value in values]
            return lambda: copies
        return lambda: list(pickle.loads(stored))

    def _process_whole(self, batch: Batch, input_index: int) -> bool:
        """Process the batch; return False if that fails, with all changes undone."""
        counted = self._context.metrics.undo_point()
        self._begin(input_index)
        try:
            self._process(batch, input_index)
        except TidemillError as error:
            self._check_poison(error)
            self._take_back()
            counted()
            return False
        self._keep()
        return True

    def _process_each(self, batch: Batch, input_index: int) -> None:
        keys, timestamps = batch.keys, batch.timestamps
        for position, value in enumerate(batch.values):
            key = None if keys is None else keys[position]
            timestamp = None if timestamps is None else timestamps[position]
            stamp = None if timestamps is None else timestamps[position : position + 1]
            its_own = value if is_immutable(value) else self._output.emissions.copy(value)
            one = Batch([its_own], stamp, None if keys is None else [key])
            self._begin(input_index)
            try:
                self._process(one, input_index)
            except TidemillError as error:
                self._put_aside(error, value, key, timestamp, stamped=timestamps is not None)
            else:
                self._keep()

    def fire(self, queue: Any, until: int, domain: TimeDomain) -> None:
        """Let the operator fire timers one by one."""
        self._output.hold()
        while (due := queue.peek()) is not None and due <= until:
            one = _OneTimer(queue)
            self._begin(0)
            try:
                self._fire(one, until, domain)
            except TidemillError as error:
                time, key, namespace = one.timer or (due, None, None)
                value = self._operator.evaluating
                by_event_time = domain is TimeDomain.EVENT_TIME
                self._put_aside(error, value, key, time, stamped=by_event_time, timer=True)
                self._operator.pass_over(time, key, namespace, by_event_time)
                self._output.keep()
            else:
                self._keep()
        self._output.release()

    def _begin(self, input_index: int) -> None:
        self._undo.begin()
        states = self._context.operator_state
        # The data side cannot change broadcast state.
        if states is not None and (input_index == 1 or not self._broadcast):
            states.note_changes_in(self._undo)

    def _keep(self) -> None:
        self._undo.keep()
        self._operator.settle()
        self._output.keep()

    def _take_back(self) -> None:
        self._undo.roll_back()
        self._operator.abandon()
        self._output.drop()

    def _check_poison(self, error: TidemillError) -> BaseException:
        """Return the exception of a function if its record caused it, else raise the error."""
        cause = error.__cause__ or error
        # Either a function raised, or it emitted a record of the wrong type.
        at_record = error.site is not None or isinstance(error, TypeMismatchError)
        if not at_record or _is_no_fault_of_the_record(error) or _is_no_fault_of_the_record(cause):
            raise error
        return cause

    def _put_aside(
        self, error: TidemillError, value: Any, key: Any, timestamp: int | None, *, stamped: bool, timer: bool = False
    ) -> None:
        cause = self._check_poison(error)
        self._take_back()
        self._poisoned.inc()
        plan = self._context.plan
        if not self._logged:
            self._logged = True
            log.warning(
                "%s raised %s at a record, which was set aside (on_error: %s). Further records are only counted (%s)",
                self._context.where,
                type(cause).__name__,
                plan.error_policy,
                POISON_RECORDS,
            )
        if self._tag is not None:
            poison = PoisonRecord(
                value=value,
                exception=type(cause).__name__,
                message=message_of(cause),
                traceback=user_traceback(cause),
                operator=plan.name,
                uid=plan.uid,
                subtask=self._context.subtask,
                key=key,
                timestamp=timestamp,
                timer=timer,
            )
            self._output.put_aside(self._tag, poison, timestamp if stamped else None)
