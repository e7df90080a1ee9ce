"""State by key: values, lists, maps, reducing and aggregating state, timers, time to live, undo.

Start with ``backend.py``, the interface, then ``tables.py``, which stores entries with the changes of the current
epoch. ``kinds.py`` is the registry of the kinds of state: a new kind is one entry there and its own classes, as in
``single_states.py`` and ``collection_states.py``. The interfaces that user functions see are in
``tidemill.datastream.functions.state``. Timers are stored in ``timers.py`` and fired in
``tidemill.runtime.operators.keyed``. State by subtask is in ``tidemill.state.operator``.
"""
