"""The epoch protocol and its files: what is committed, by whom, and what may be deleted.

Start in ``protocol.py`` and ``model.py``: decisions as pure functions, and the nouns that they use. ``log.py`` is the
log of manifests, ``restore.py`` the way back. Bytes of state are opaque here.
"""
