"""One class for each kind of operator. Each processes whole batches.

Start with ``factory.py``, which maps specs to operators, and ``base.py``, their interface. ``record_loops.py`` calls
user functions for the records of a batch. ``keyed.py`` fires timers. Window operators are in ``windowing``. There is no
separate class for columns: an operator that can process them does so in its own ``process``, such as
``batch_functions.py``. ``columnar`` has what ``keyed.py`` and ``windowing`` use for built-in aggregates.

Chains of operators are built in ``tidemill.runtime.task.chain``. State is implemented in ``tidemill.state``, clocks and
watermarks are in ``tidemill.runtime.time``.

A new kind of operator needs:

- its spec in ``datastream/program/specs.py``, with an entry in ``GUARDED`` if it supports ``on_error()``;
- a method in ``datastream/streams`` that adds it to a program;
- its class here, and an entry in ``factory.py``;
- ``runtime/task/operator_kinds.py``: which kinds may continue with its state, whether it has timers, and its name in
  errors;
- ``datastream/program/taken.py`` if it has operator state that its function does not declare;
- ``graph/columns.py`` if it processes columnar batches;
- ``graph/parallelism.py`` if its subtasks must not vary with the partitions of a Spark source.
"""
