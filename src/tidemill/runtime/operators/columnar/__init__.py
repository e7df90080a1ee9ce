"""Built-in aggregates over columnar batches: the state of each distinct key is read and written once per batch.

Start with ``aggregates.py``. There are no operators here: those in ``tidemill.runtime.operators.keyed`` and
``tidemill.runtime.operators.windowing.aligned`` call it. ``groups.py`` groups the rows of a batch by key,
``kernels.py`` computes running and final values, ``records.py`` converts between columns and the records in the state.

The state is the same as that of the implementation for records (``tidemill.runtime.operators.built_in``), and so are
the results, bit by bit. What columns cannot do in the same way, such as a sum that exceeds 64 bits, is done record by
record: each function here returns None then, before it has changed anything. Functions of users do not belong here:
those on columns are called in ``tidemill.runtime.operators.batch_functions``.
"""
