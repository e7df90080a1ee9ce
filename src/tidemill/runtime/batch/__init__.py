"""Batches of records in a chain, as lists or as Arrow columns. This is not Flink's BATCH mode.

Start with ``records.py``. ``columns.py`` keeps records columnar for as long as possible; ``to_columns.py`` and
``formats.py`` convert them for batch functions. ``emitted.py`` makes sure that emitted records do not change
afterwards; ``failures.py`` creates errors that name the operator and the record.

Which operators process columns is decided in ``tidemill.graph.columns``. User functions are called in
``tidemill.runtime.operators.record_loops``, and batches are serialized in ``tidemill.runtime.exchange``. The sorted
input of BATCH mode is ``tidemill.runtime.exchange.sorted_input``.
"""
