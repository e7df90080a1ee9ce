"""The settings of an operator, shared by streams and sinks: name, uid, parallelism, chaining."""

from __future__ import annotations

import abc

from tidemill.datastream.program.error_policy import ErrorPolicy, OnError
from tidemill.datastream.program.specs import GUARDED
from tidemill.datastream.program.transformations import ChainingStrategy, Transformation
from tidemill.datastream.slot_sharing_group import SlotSharingGroup
from tidemill.errors import GraphError
from tidemill.python_versions import Self


class OperatorSettings(abc.ABC):
    """Sets properties of an operator. Each method returns the object it was called on."""

    @abc.abstractmethod
    def _operator(self, what: str) -> Transformation:
        """The operator to which the method ``what`` applies. Raises ``GraphError`` if there is none."""

    def get_name(self) -> str:
        """The name of the operator."""
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Set the display name of the operator in plans, logs and metrics."""
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> Self:
        """Set a fixed id for the operator.

        After the program is changed, the state of the operator is found by this id. Set it on all operators with state.
        """
        if not uid:
            raise ValueError(f"a uid must not be empty: {uid!r}")
        self._operator("uid").uid = uid
        return self

    def on_error(self, policy: ErrorPolicy) -> Self:
        """Set how records at which the operator's function raises are handled. Not part of Flink.

        By default the job fails and is restarted according to its restart strategy. With another policy, the record is
        set aside and processing continues with the next record. The effects of the failing call are undone: its
        emitted records, its changes to keyed and broadcast state, and its timers. A timer that raises counts as fired.
        Attributes of the function object and effects outside the job are not undone. Error policies are supported by
        ``map``, ``filter``, ``flat_map``, ``process``, ``reduce`` and other rolling aggregates, windows, and the same
        operators on connected streams.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import ErrorPolicy, OutputTag, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> bad = OutputTag("bad")
        >>> numbers = env.from_collection(["1", "x", "3"]).map(int).on_error(ErrorPolicy.side_output(bad))
        >>> failed = numbers.get_side_output(bad).map(lambda poison: (poison.value, poison.exception))
        >>> list(failed.execute_and_collect())
        [('x', 'ValueError')]
        """
        operator = self._operator("on_error")
        if policy.kind is not OnError.FAIL and not issubclass(operator.taken.kind, GUARDED):
            kinds = ", ".join(sorted(kind.__name__.removesuffix("Spec") for kind in GUARDED))
            raise GraphError(
                f"operator {operator.name!r} ({operator.user_line}) does not support on_error(): it is a "
                f"{operator.taken.kind.__name__.removesuffix('Spec')}, and on_error() supports {kinds}. Check the "
                "records in a map() or process() before it, and call on_error() there."
            )
        operator.error_policy = policy
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Use the given id, from an earlier version of the program, instead of the operator's own."""
        if len(uid_hash) != 32 or any(digit not in "0123456789abcdef" for digit in uid_hash):
            raise ValueError(f"a uid hash must have 32 lowercase hex digits: {uid_hash!r}")
        self._operator("set_uid_hash").uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of the operator, which is its number of subtasks."""
        if parallelism < 1:
            raise ValueError(f"the parallelism of an operator must be at least 1, not {parallelism}")
        self._operator("set_parallelism").parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the max parallelism of the operator, which is its number of key groups. At most 32768."""
        if not 1 <= max_parallelism <= 1 << 15:
            raise ValueError(f"the max parallelism must be between 1 and {1 << 15}, not {max_parallelism}")
        self._operator("set_max_parallelism").max_parallelism = max_parallelism
        return self

    def set_description(self, description: str) -> Self:
        """Set a detailed description of the operator, which is shown in plans."""
        self._operator("set_description").description = description
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in a separate task."""
        self._operator("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Set the slot sharing group of the operator. Operators of different groups are not chained."""
        name = slot_sharing_group.name if isinstance(slot_sharing_group, SlotSharingGroup) else slot_sharing_group
        self._operator("slot_sharing_group").slot_sharing_group = name
        return self
