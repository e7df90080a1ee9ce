"""Event time, watermarks and processing time.

The model, from a source to a timer:

- A **partition** is a lasting part of a source: a Kafka partition, a file that grows. Each has its own watermark
  generator (``watermarks.py``), because records are ordered within a partition and not across partitions.
- A **strand** (``strands.py``) is what one task reads of one partition in one epoch. Engines reassign input to tasks in
  each epoch, so one task may read several partitions and one partition may be read by several tasks over time. Strands
  keep their watermarks separate until they are merged.
- The **source clock** (``source_clock.py``) merges the strands of a source at the receiving subtask: the slowest
  partition that is not idle counts. It knows all strands before the first record, so that no strand makes the records
  of another one late.
- The **input clock** (``input_clock.py``) merges the channels of an operator as Flink does: the minimum over all inputs
  that are not idle, never going back. It determines when timers and windows fire.
- **Time states** (``time_states.py``, ``generator_fields.py``) are what generators must remember from one epoch to the
  next. They are in the manifest, and any subtask can continue with them.

Only the driver determines processing time (``processing_clock.py``): it is constant within an epoch and never goes
back.

Start with ``watermarks.py``. Timers are not here: they are stored in ``tidemill.state.keyed.timers`` and
``tidemill.state.rocksdb.timers``, and fired in ``tidemill.runtime.operators.keyed``. Watermark strategies and
generators are in ``tidemill.common``.
"""
