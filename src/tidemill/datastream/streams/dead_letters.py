"""The dead-letter sink, which receives the records at which operators fail. All operators of a program share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.common.serialization import Encoder
from tidemill.config import ExecutionOptions
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.rolling import RollingPolicy
from tidemill.connectors.file_system.sink import FileSink
from tidemill.connectors.sinks import Sink
from tidemill.datastream.program.error_policy import DEAD_LETTERS, OnError, PoisonRecord
from tidemill.datastream.program.specs import MapSpec, SinkSpec
from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.errors import GraphError

#: The uid of the sink, by which committables of a previous driver are found.
SINK_UID: Final = "dead-letter-sink"


def with_dead_letters(
    transformations: Sequence[Transformation], sink: Sink | None, configuration: Configuration
) -> tuple[Transformation, ...]:
    """Add the dead-letter sink to the operators of a program if any of them needs it. Does not change the operators.

    ``sink`` receives :class:`PoisonRecord` objects. Without a sink, files are written to the configured directory.
    """
    senders = _senders(transformations)
    if not senders:
        return tuple(transformations)
    letters = tuple(Upstream(node, None, DEAD_LETTERS) for node in senders)
    added: list[Transformation] = []
    if sink is None:
        sink = _json_lines(configuration, senders[0])
        line = Transformation.of("Dead letters", MapSpec(PoisonRecord.to_json), (letters,), uid="dead-letters")
        added.append(line)
        letters = (Upstream(line),)
    added.append(Transformation.of("Sink: Dead letters", SinkSpec(sink), (letters,), uid=SINK_UID))
    return (*transformations, *added)


def _senders(transformations: Sequence[Transformation]) -> list[Transformation]:
    """The operators that send dead letters, including those of an earlier program that this program reads."""
    found: dict[int, Transformation] = {}
    waiting = list(transformations)
    while waiting:
        node = waiting.pop()
        if node.id not in found:
            found[node.id] = node
            waiting.extend(upstream.node for edges in node.inputs for upstream in edges)
    senders = [node for node in found.values() if node.error_policy.kind is OnError.DEAD_LETTER]
    return sorted(senders, key=lambda node: node.id)


def _json_lines(configuration: Configuration, sender: Transformation) -> Sink:
    directory = configuration.get(ExecutionOptions.DEAD_LETTER_DIRECTORY)
    if directory is None:
        raise GraphError(
            f"operator {sender.name!r} ({sender.user_line}) uses ErrorPolicy.dead_letter(), but the program has no "
            "dead-letter sink: set execution.dead-letter.dir, or call env.set_dead_letter_sink()"
        )
    files = OutputFileConfig.builder().with_part_prefix("dead-letters").with_part_suffix(".jsonl").build()
    return (
        FileSink.for_row_format(directory, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(files)
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
