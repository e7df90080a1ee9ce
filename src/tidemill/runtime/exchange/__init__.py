"""How records get from one subtask to another.

``routes.py`` decides who gets a record, ``sender.py`` packs parcels (``parcels.py``), ``outbox.py`` hands them to the
engine; ``inbox.py`` unpacks them in order at the other end. How bytes move is up to the engine.
"""
