"""The differences between PyFlink's recorded results and those here, by pattern of the case, each with its reason."""

from __future__ import annotations

#: Cases, by the beginning of their id, in which PyFlink fails and Tidemill gives a result: it accepts more.
ACCEPTED_HERE: tuple[str, ...] = (
    "values-",  # tuples for lists and rows, None for a text, ints of any size
    "aggregates-",  # the name of a field of a tuple, text
    "calls-key-by-number",  # key_by(0)
    "calls-path-",  # plain and relative paths, roots
    "state-value-",  # None clears a value
    "state-map-key-none",
    "state-reducing-none",  # None is no value yet
    "results-flat_map-none",  # None is no result
    "printed-big-int",
    "printed-untyped-bytes",
    "streams-project-",  # rows, and records of no declared type
    "streams-union-untyped",
    "streams-partition-custom",  # the number of partitions is that of the environment; PyFlink: -1
    "streams-reduce-changes-type",
    "connected-keys-of-types",  # keys of different types
    "keys-typed-",  # tuples for rows, rows for tuples
)

DIFFERENCES: dict[str, str] = {
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(1969, *": "PyFlink rounds times before 1970 up by a second",
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(1, *": "PyFlink's seconds overflow 32 bits",
    "values-SQL_TIMESTAMP-*: datetime datetime.datetime(9999, *": "PyFlink's seconds overflow 32 bits",
    "values-TUPLE-*: tuple (1, 'a', 2,)": "PyFlink drops fields that the type does not have",
    "values-ROW*: Row Row(1, 'a', 2)": "PyFlink drops fields that the type does not have",
    "timers-set-again": "PyFlink fires a timer again if on_timer sets it once more in the same watermark",
    "timers-set-again-batch": "PyFlink fires the timer for ever",
    "timers-state-batch": "PyFlink loses map state in BATCH mode",
    "state-list-absent-*": "get() returns a list, which is false if it is empty; PyFlink: an object that is true",
    "state-list-none": "None is refused where it is added, instead of when state is written",
    "state-list-text-none*": "None is refused where it is added, instead of when state is written",
    "state-list-update-none": "an update that fails changes nothing; in PyFlink the list is empty afterwards",
    "state-map-none*": "an entry with the value None is contained, as in the Java API",
    "state-map-put-all-dict*": "put_all() takes a dict, as PyFlink documents it, and pairs, as PyFlink takes them",
    "state-reducing-none-after": "None clears a reducing state, as it does an aggregating one, and as in the Java API",
    "state-value-row-field": "a row without names gives the same error for a name as one with names",
    "state-value-changed-in-place-small-cache": "in PyFlink, whether a change in place is kept depends on its cache",
    "async-ordered-text": "a text is not a list of results: it would be split into letters",
    "broadcast-absent": "PyFlink's broadcast state is never empty for is_empty()",
    "broadcast-keyed-absent": "PyFlink's broadcast state is never empty for is_empty()",
    "broadcast-remove*": "PyFlink's broadcast state is never empty for is_empty()",
    "broadcast-keyed-remove*": "PyFlink's broadcast state is never empty for is_empty()",
    "broadcast-none": "an entry with the value None is contained, as in the Java API",
    "broadcast-keyed-none": "an entry with the value None is contained, as in the Java API",
    "broadcast-put-all": "put_all() takes a dict, as PyFlink documents it, and pairs, as PyFlink takes them",
    "broadcast-keyed-put-all": "put_all() takes a dict, as PyFlink documents it, and pairs, as PyFlink takes them",
    "broadcast-reads-put*": "the error says on which side a broadcast state may be changed",
    "broadcast-reads-remove": "the error says on which side a broadcast state may be changed",
    "broadcast-keyed-reads-put": "the error says on which side a broadcast state may be changed",
    "broadcast-reads-clear": "PyFlink lets the data side clear a broadcast state, which then differs by subtask",
    "broadcast-writes-float": "a value is converted when it is put; in PyFlink when its cache is written",
    "broadcast-writes-changed-in-place": "only put() changes a value; in PyFlink it depends on its cache",
    "connected-process": "PyFlink emits to the main output what a side output without readers gets",
    "windows-tumbling-*-batch": "in PyFlink, windows in BATCH mode do not end",
    "windows-count-*-apply": "count windows are global windows, as in the Java API",
    "windows-count-3-1-*": "sliding count windows fire before they are full, as in the Java API",
    "windows-count-2-3-*": "a sliding count window has the last records before it fires, as in the Java API",
    "windows-state": "PyFlink's state of a window and of its key is one if the names are equal",
    "windows-state-count": "PyFlink's triggers and window functions share the names of their states",
    "windows-state-own": "PyFlink's state of a window and of its key is one if the names are equal",
    "triggers-global-continuous": "PyFlink fires for ever at the end of the input",
    "triggers-*-continuous": "PyFlink fires timers that are set for the past of a watermark after later ones",
    "keys-list*": "a key must be hashable: the error says what to use",
    "keys-dict*": "a key must be hashable: the error says what to use",
    "keys-set*": "a key must be hashable: the error says what to use",
    "keys-typed-list": "a key must be hashable: the error says what to use",
    "results-map-*": "a result is converted to its type, or refused, also within a chain",
    "results-flat_map-range": "a result is converted to its type, or refused, also within a chain",
    "results-flat_map-numpy": "a result is converted to its type, or refused, also within a chain",
    "results-process-range": "a result is converted to its type, or refused, also within a chain",
    "printed-*-array": "arrays are printed with their elements, not with the address of a Java object",
    "results-process-false": "a result that is not iterable is an error",
    "results-process-zero": "a result that is not iterable is an error",
    "timestamps-unassigned": "a record without event time has no timestamp, as PyFlink's documentation specifies",
    "timestamps-after-reduce-batch": "the result of a key in BATCH mode has no timestamp; PyFlink: the end of time",
    "timestamps-after-sum-batch": "the result of a key in BATCH mode has no timestamp; PyFlink: the end of time",
    "calls-conf-equal-other-type": "a number and its text are the same setting",
    "calls-type-equal-names": "PyFlink's row types ignore names when they are compared",
    "calls-type-primitive-array-of-string": "an error where the type is made, instead of in the job",
    "calls-type-basic-array-of-list": "an error where the type is made, instead of in the job",
    "calls-type-of-names-too-few": "an error where the type is made; PyFlink drops the field",
    "calls-process-of-function": "an error where the program is wrong, instead of in the job",
    "calls-path-databases-none": "the error says what is missing",
    "calls-descriptor-of-text": "an error where the program is wrong, instead of in the job",
    "calls-sum-of-negative": "a position is not negative: PyFlink counts it from the end of a row",
    "calls-row-name-*": "the error says which fields there are",
    "calls-row-attribute-absent": "the error says what is missing",
}
