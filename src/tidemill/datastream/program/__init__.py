"""What a program consists of before it is compiled: data, no behavior of a job.

Start in ``transformations.py``: the nodes that streams add. Each holds a spec (``specs.py``), which says what kind of
operator it is. ``taken.py`` keeps user code as it was when it was passed in; ``execution.py`` hands the program to an
executor, the one place where the API reaches higher layers.
"""
