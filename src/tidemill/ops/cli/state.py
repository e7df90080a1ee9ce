"""``tidemill state``: read the committed state of a job, running or not, or of a savepoint."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.ops.cli.arguments import (
    AllowPickle,
    AsJson,
    ConfigFile,
    Defined,
    Epoch,
    JobArgument,
    configured,
    open_reader,
)
from tidemill.ops.cli.failures import Verbs, finding
from tidemill.ops.cli.hot_keys import hot
from tidemill.ops.cli.output import print_json, print_table, progress, size
from tidemill.ops.errors import NotThereError

if TYPE_CHECKING:
    from tidemill.ops.state_rows import Row
    from tidemill.state_processor import SavepointReader

__all__ = ["state_commands"]

state_commands = typer.Typer(
    cls=Verbs, no_args_is_help=True, help="Inspect the committed state of a job, running or not."
)

Uid = Annotated[str, typer.Argument(metavar="UID", help="The uid of an operator.")]
State = Annotated[str, typer.Argument(metavar="STATE", help="The name of a state.")]
Limit = Annotated[int, typer.Option("--limit", "-l", min=1, help="Maximum number of entries to show.")]


@state_commands.command("ls")
def list_states(
    job: JobArgument,
    epoch: Epoch = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Count stored rows instead of entries, without reading the state.")
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List operators and their states.

    All state is read to count its entries. With --stored, the rows in storage are shown instead: an entry that changed
    in several epochs since the last merge has several. Bytes are those in storage.
    """
    reader = open_reader(job, epoch, configured(config, defined))
    with finding():
        if stored:
            operators = reader.operators()
        else:
            with progress("entries", None) as done:
                operators = reader.counted_operators(done)
    if as_json:
        print_json({"job": reader.job_id, "epoch": reader.epoch, "operators": [asdict(one) for one in operators]})
        return
    rows: list[tuple[object, ...]] = []
    for one in operators:
        for info in (*one.states, *one.operator_states):
            types = ", ".join(f"{column} {kind}" for column, kind in info.types.items())
            rows.append(
                (
                    one.uid,
                    one.name,
                    info.name,
                    info.kind,
                    types,
                    info.rows if stored else info.entries,
                    size(info.bytes),
                )
            )
        if one.timers:
            rows.append((one.uid, one.name, "(timers)", "timer", "", one.timers, ""))
    typer.echo(f"Job {reader.job_id}, epoch {reader.epoch}")
    counted = "rows" if stored else "entries"
    print_table(("uid", "operator", "state", "kind", "types", counted, "bytes"), rows, empty="no state")


@state_commands.command()
def get(
    job: JobArgument,
    uid: Uid,
    state: State,
    key: Annotated[str, typer.Argument(metavar="KEY", help='A plain string, or JSON: 7, or ["a", 1] for a tuple.')],
    epoch: Epoch = None,
    allow_pickle: AllowPickle = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries of one key.

    A value state has one entry, a map state one for each map key. Windowed state has entries for each window.
    """
    reader = open_reader(job, epoch, configured(config, defined), allow_pickle=allow_pickle)
    from tidemill.ops.state_rows import rows_of_key

    with finding():
        rows = rows_of_key(reader, uid, state, key)
    if not rows:
        raise NotThereError(f"state {state!r} of {uid!r} has no key {key!r} in epoch {reader.epoch}")
    _print_rows(reader, rows, as_json)


@state_commands.command()
def scan(
    job: JobArgument,
    uid: Uid,
    state: State,
    limit: Limit = 100,
    epoch: Epoch = None,
    allow_pickle: AllowPickle = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show entries of a state, keyed or not, in no particular order."""
    reader = open_reader(job, epoch, configured(config, defined), allow_pickle=allow_pickle)
    from tidemill.ops.state_rows import rows_of

    with finding():
        found = list(islice(rows_of(_batches(reader, uid, state)), limit + 1))
    _print_rows(reader, found[:limit], as_json)
    if len(found) > limit:
        typer.echo(
            f"There are more than {limit} entries: --limit shows more, 'tidemill state export' writes all.", err=True
        )


@state_commands.command()
def diff(
    job: JobArgument,
    uid: Uid,
    state: State,
    first: Annotated[int, typer.Option("--from", min=0, help="The earlier epoch.", show_default=False)],
    last: Annotated[int | None, typer.Option("--to", min=0, help="The later epoch. Default: the latest.")] = None,
    other: Annotated[
        str | None, typer.Option("--with", metavar="JOB", help="Read the later epoch from this job or savepoint.")
    ] = None,
    limit: Limit = 1000,
    allow_pickle: AllowPickle = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed in a keyed state between two epochs.

    'tidemill checkpoints' lists the epochs that can be read.
    """
    settings = configured(config, defined)
    before = open_reader(job, first, settings, allow_pickle=allow_pickle)
    after = open_reader(other or job, last, settings, allow_pickle=allow_pickle)
    from tidemill.ops.state_rows import cell_text, difference

    with finding():
        changes = list(islice(difference(before, after, uid, state), limit + 1))
    if as_json:
        print_json({"job": before.job_id, "from": before.epoch, "to": after.epoch, "changes": changes[:limit]})
    else:
        columns = _columns(changes, ("change", "key", "namespace", "map_key", "before", "after"))
        rows = [[cell_text(change.get(column)) for column in columns] for change in changes[:limit]]
        print_table(columns, rows, empty=f"nothing changed from epoch {before.epoch} to {after.epoch}")
    if len(changes) > limit:
        typer.echo(f"There are more than {limit} changes: --limit shows more.", err=True)


@state_commands.command()
def export(
    job: JobArgument,
    uid: Uid,
    state: State,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write: .parquet, .csv or .arrow.")],
    epoch: Epoch = None,
    allow_pickle: AllowPickle = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a keyed state to a file: Parquet, CSV or Arrow, depending on its extension.

    The file is written atomically: either the whole file is written, or none.
    """
    form = file.suffix.lower().removeprefix(".")
    if form not in ("parquet", "csv", "arrow"):
        raise typer.BadParameter("the file must end in .parquet, .csv or .arrow", param_hint="FILE")
    if not file.absolute().parent.is_dir():
        raise NotThereError(f"{file.absolute().parent} is not a directory")
    reader = open_reader(job, epoch, configured(config, defined), allow_pickle=allow_pickle)
    with finding():
        known = (info.rows for one in reader.operators() if one.uid == uid for info in one.states if info.name == state)
        with progress("rows", next(known, None)) as done:
            rows = reader.export(file, uid, state, form, on_rows=done)
    if as_json:
        print_json({"job": reader.job_id, "epoch": reader.epoch, "rows": rows, "file": str(file.absolute())})
    else:
        typer.echo(f"{rows} rows of epoch {reader.epoch} are in {file}")


state_commands.command()(hot)


def _batches(reader: SavepointReader, uid: str, state: str) -> Any:
    """Return a state, keyed or not, as Arrow tables."""
    for one in reader.operators():
        if one.uid == uid and state in {info.name for info in one.operator_states} - {s.name for s in one.states}:
            return [reader.operator_state(uid, state)]
    return reader.iter_batches(uid, state)


def _print_rows(reader: SavepointReader, rows: list[Row], as_json: bool) -> None:
    if as_json:
        print_json({"job": reader.job_id, "epoch": reader.epoch, "entries": rows})
        return
    from tidemill.ops.state_rows import cell_text

    columns = _columns(rows, ("subtask", "key", "namespace", "map_key", "value", "last_access"))
    print_table(
        columns, [[cell_text(row.get(column)) for column in columns] for row in rows], empty="the state is empty"
    )


def _columns(rows: list[Row], order: tuple[str, ...]) -> list[str]:
    """Return the columns that occur in any of the rows."""
    return [column for column in order if any(column in row for row in rows)]
