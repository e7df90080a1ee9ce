"""Record formats under PyFlink's import paths.

The modules contain nothing but imports from :mod:`tidemill.connectors.formats`, which has the implementation. Start
with ``json.py``.
"""

from __future__ import annotations
