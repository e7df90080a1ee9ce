"""The dead-letter sink: one for all operators of a program that send the records they fail at there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.common.serialization import Encoder
from tidemill.config import ExecutionOptions
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.sink import FileSink
from tidemill.connectors.sinks import Sink
from tidemill.datastream.program.error_policy import DEAD_LETTERS, OnError, PoisonRecord
from tidemill.datastream.program.specs import MapSpec, SinkSpec
from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.errors import GraphError

#: The uid of the sink: what a former driver has not committed is found by it.
SINK_UID: Final = "dead-letter-sink"


def with_dead_letters(
    transformations: Sequence[Transformation], sink: Sink | None, configuration: Configuration
) -> tuple[Transformation, ...]:
    """The operators of a program, with the dead-letter sink if any of them needs it; the given ones are not changed.

    ``sink`` takes :class:`PoisonRecord` objects; without one the configuration names a directory.
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
    """The operators that send dead letters: also such that belong to an earlier program, but are read by this one."""
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
            f"operator {sender.name!r} ({sender.user_line}) sends the records it fails at to the dead-letter sink, but "
            "there is none: set execution.dead-letter.dir, or call env.set_dead_letter_sink()"
        )
    files = OutputFileConfig.builder().with_part_prefix("dead-letters").with_part_suffix(".jsonl").build()
    return (
        FileSink.for_row_format(directory, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(files)
        .build()
    )
