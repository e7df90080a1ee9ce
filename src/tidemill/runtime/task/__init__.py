"""One subtask of one epoch on a worker.

Start in ``task.py``: its input in, its parcels and its ack out. ``chain.py`` wires the operators of a chain;
``warm.py`` keeps chains open between epochs and loads committed state into new ones.
"""
