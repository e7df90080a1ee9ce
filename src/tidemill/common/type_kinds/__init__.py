"""The classes of type information that :class:`tidemill.common.typeinfo.Types` creates.

``base.py`` defines the interface of all types. How values of a type are stored is defined in
``tidemill.state.codecs``.
"""
