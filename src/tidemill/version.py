"""The version of PyFlink whose API this is, for programs that compare it.

Tidemill's own version is ``tidemill.__version__``.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "2.3.0"
