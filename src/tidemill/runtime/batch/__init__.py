"""Records on their way through a chain: batches as lists or columns, and what user code did to them.

Start in ``records.py``. ``emitted.py`` makes sure that what a function emitted does not change any more;
``failures.py`` turns errors of user code into errors that name the operator and the record.
"""
