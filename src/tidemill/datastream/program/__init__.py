"""The parts of a program before it is compiled. They are pure data.

Start with ``transformations.py``, the nodes that streams add. Each node has a spec (``specs.py``), which describes the
operator. ``taken.py`` captures user code at the time it is passed in. ``execution.py`` submits the program to an
executor; it is the only place where the API calls higher layers. Programs are compiled in ``tidemill.graph``, and
``tidemill.runtime.operators.factory`` maps specs to operators.
"""
