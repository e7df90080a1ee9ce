"""The kinds of type information behind :class:`tidemill.common.typeinfo.Types`.

Start in ``base.py``: what each type must be able to do. How values of a type are stored is in
``tidemill.state.codecs``.
"""
