"""The settings that every operator has, once for streams and sinks: name, uid, parallelism, chaining."""

from __future__ import annotations

import abc
from typing import Self

from tidemill.datastream.program.error_policy import ErrorPolicy, OnError
from tidemill.datastream.program.specs import GUARDED
from tidemill.datastream.program.transformations import ChainingStrategy, Transformation
from tidemill.datastream.slot_sharing_group import SlotSharingGroup
from tidemill.errors import GraphError


class OperatorSettings(abc.ABC):
    """Sets properties of the operator behind ``_operator``; each method returns the object it was called on."""

    @abc.abstractmethod
    def _operator(self, what: str) -> Transformation:
        """The operator to set ``what`` of; raises ``GraphError`` where there is none."""

    def get_name(self) -> str:
        """The operator's name."""
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Name the operator, for people: plans, logs and metrics show it."""
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> Self:
        """Give the operator a fixed id. Its state is found by it after the program was changed: set it on everything
        that has state."""
        if not uid:
            raise ValueError(f"a uid cannot be empty: {uid!r}")
        self._operator("uid").uid = uid
        return self

    def on_error(self, policy: ErrorPolicy) -> Self:
        """Beyond Flink: say what becomes of a record at which the operator's function raises.

        Where nothing is said the job fails, and is started again as its restart strategy says. With another policy the
        record is put aside and the next one comes. What the failing call has done by then is taken back: what it
        yielded, its changes of keyed and broadcast state, its timers. A timer that raises counts as fired. Attributes
        of the function object, and what it did outside the job, stay as they are. It is for ``map``, ``filter``,
        ``flat_map``, ``process``, ``reduce`` and its relatives, windows, and these on connected streams.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import ErrorPolicy, OutputTag, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> bad = OutputTag("bad")
        >>> numbers = env.from_collection(["1", "x", "3"]).map(int).on_error(ErrorPolicy.side_output(bad))
        >>> told = numbers.get_side_output(bad).map(lambda poison: (poison.value, poison.exception))
        >>> list(told.execute_and_collect())
        [('x', 'ValueError')]
        """
        operator = self._operator("on_error")
        if policy.kind is not OnError.FAIL and not issubclass(operator.taken.kind, GUARDED):
            kinds = ", ".join(sorted(kind.__name__.removesuffix("Spec") for kind in GUARDED))
            raise GraphError(
                f"operator {operator.name!r} ({operator.user_line}) cannot put failing records aside: it is a "
                f"{operator.taken.kind.__name__.removesuffix('Spec')}, and on_error() is for {kinds}. Check the "
                "records in a map() or process() before it, and call on_error() there."
            )
        operator.error_policy = policy
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Use this id, which an earlier version of the program had, in place of the operator's own."""
        if len(uid_hash) != 32 or any(digit not in "0123456789abcdef" for digit in uid_hash):
            raise ValueError(f"a uid hash has 32 hex digits in lower case, not {uid_hash!r}")
        self._operator("set_uid_hash").uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the operator in so many subtasks."""
        if parallelism < 1:
            raise ValueError(f"the parallelism of an operator is at least 1, not {parallelism}")
        self._operator("set_parallelism").parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Bound how far the operator can ever be scaled: its number of key groups, at most 32768."""
        if not 1 <= max_parallelism <= 1 << 15:
            raise ValueError(f"the max parallelism is between 1 and {1 << 15}, not {max_parallelism}")
        self._operator("set_max_parallelism").max_parallelism = max_parallelism
        return self

    def set_description(self, description: str) -> Self:
        """Describe the operator at length; plans show it."""
        self._operator("set_description").description = description
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in a task of its own."""
        self._operator("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Put the operator into a group; operators of different groups are not chained."""
        name = slot_sharing_group.name if isinstance(slot_sharing_group, SlotSharingGroup) else slot_sharing_group
        self._operator("slot_sharing_group").slot_sharing_group = name
        return self
