"""How values become Arrow columns and back.

Start in ``column_codecs.py``, which chooses a codec for a declared type. What is written here is in every checkpoint: a
new form needs a new name. ``serializers.py`` compares the types of a program with the stored ones.
"""
