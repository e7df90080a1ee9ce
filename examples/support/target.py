"""The command line that the small examples share: it selects where to run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment


def environment(
    description: str | None, arguments: Sequence[str] | None, settings: Mapping[str, str] | None = None
) -> StreamExecutionEnvironment:
    """Create an environment with parallelism 2 for ``--target``: ``spark``, or ``local`` for this process."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    configuration = Configuration().set_string("execution.target", parser.parse_args(arguments).target)
    for key, value in (settings or {}).items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
