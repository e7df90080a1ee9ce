"""Event time, watermarks and processing time.

The model, from a source to a timer:

- A **partition** is a lasting part of a source: a Kafka partition, a file that grows. Each has its own watermark
  generator (``watermarks.py``), because records are ordered within a partition and not across partitions.
- A **strand** (``strands.py``) is what one task reads of one partition in one epoch. Spark deals input out to tasks
  anew in each epoch, so one task may read several partitions and one partition may be read by several tasks over time.
  Strands keep their watermarks apart until they are merged.
- The **source clock** (``source_clock.py``) merges the strands of a source at the receiving subtask: the slowest
  partition that is not idle counts. It knows all strands before the first record, so that no strand makes the records
  of another one late.
- The **input clock** (``input_clock.py``) merges the channels of an operator as Flink does: the minimum over all inputs
  that are not idle, never going back. Timers and windows fire by it.
- **Time states** (``time_states.py``, ``generator_fields.py``) are what generators must remember from one epoch to the
  next. They are in the manifest, and any subtask can continue with them.

Processing time is the driver's alone (``processing_clock.py``): an epoch has one, and it never goes back.
"""
