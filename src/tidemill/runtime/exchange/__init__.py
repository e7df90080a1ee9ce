"""How records get from one subtask to another.

Start with ``routes.py``, which selects the targets of records. ``sender.py`` packs parcels (``parcels.py``),
``outbox.py`` passes them to the engine, and ``inbox.py`` of the receiver unpacks them in order. The bytes are moved by
the engine (``tidemill.spark.jobs.stages``, ``tidemill.local.engine``). ``column_routes.py`` and ``column_parcels.py``
do the same for columnar batches. ``sorted_input.py`` sorts keyed input in BATCH mode.
"""
