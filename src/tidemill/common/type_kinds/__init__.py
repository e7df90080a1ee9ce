"""The classes of type information that :class:`tidemill.common.typeinfo.Types` creates.

Start with ``base.py``, the interface of all types. ``infer.py`` derives types from type hints. The storage of values is
not defined here: each type has a codec in ``tidemill.state.codecs``.
"""
