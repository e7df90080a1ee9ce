"""One subtask of one epoch on a worker.

Start in ``task.py``, which reads the input of the subtask and emits its parcels and its ack. ``chain.py`` wires the
operators of a chain. ``warm.py`` keeps chains open between epochs and loads committed state into new ones.
"""
