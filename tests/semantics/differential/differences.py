"""The differences between PyFlink's recorded results and those here, by pattern of the case, each with its reason."""

from __future__ import annotations

#: Cases, by the beginning of their id, in which PyFlink fails and Tidemill gives a result: it accepts more.
ACCEPTED_HERE: tuple[str, ...] = (
    "values-",  # tuples for lists and rows, None for a text, ints of any size
    "aggregates-",  # the name of a field of a tuple, text
    "calls-key-by-number",  # key_by(0)
)

DIFFERENCES: dict[str, str] = {
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(1969, *": "PyFlink rounds times before 1970 up by a second",
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(1, *": "PyFlink's seconds overflow 32 bits",
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(9999, *": "PyFlink's seconds overflow 32 bits",
    "values-TUPLE-*: tuple (1, 'a', 2,)": "PyFlink drops fields that the type does not have",
    "values-ROW*: Row Row(1, 'a', 2)": "PyFlink drops fields that the type does not have",
    "timers-set-again": "PyFlink fires a timer again if on_timer sets it once more in the same watermark",
    "timestamps-unassigned": "a record without event time has no timestamp, as PyFlink's documentation specifies",
    "timestamps-after-reduce-batch": "the result of a key in BATCH mode has no timestamp; PyFlink: the end of time",
    "timestamps-after-sum-batch": "the result of a key in BATCH mode has no timestamp; PyFlink: the end of time",
    "calls-conf-equal-other-type": "a number and its text are the same setting",
    "calls-type-equal-names": "PyFlink's row types ignore names when they are compared",
    "calls-type-primitive-array-of-string": "an error where the type is made, instead of in the job",
    "calls-type-basic-array-of-list": "an error where the type is made, instead of in the job",
    "calls-type-of-names-too-few": "an error where the type is made; PyFlink drops the field",
    "calls-process-of-function": "an error where the program is wrong, instead of in the job",
    "calls-descriptor-of-text": "an error where the program is wrong, instead of in the job",
    "calls-sum-of-negative": "a position is not negative: PyFlink counts it from the end of a row",
    "calls-row-name-*": "the error says which fields there are",
    "calls-row-attribute-absent": "the error says what is missing",
}
