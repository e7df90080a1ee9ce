"""Writes to PostgreSQL exactly once: each row becomes visible once, when its epoch is committed.

It needs a server that allows prepared transactions (max_prepared_transactions in postgresql.conf), the package psycopg
(pip install 'tidemill[postgres]'), and a table: CREATE TABLE visits (page text, visitor text)

export PGPASSWORD=...
python -m examples.connectors.postgres_exactly_once --url jdbc:postgresql://localhost:5432/shop --user me
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink

VISITS = [("/", "Ada"), ("/cups", "Ada"), ("/", "Bob"), ("/spoons", "Eve"), ("/", "Eve")]
VISIT = Types.TUPLE([Types.STRING(), Types.STRING()])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="jdbc:postgresql://host:port/database")
    parser.add_argument("--user", required=True, help="the database user; the password is read from PGPASSWORD")
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    database = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(options.url).with_user_name(options.user)
    database.with_password(os.environ.get("PGPASSWORD", ""))
    visits = JdbcSink.exactly_once_sink("INSERT INTO visits VALUES (?, ?)", VISIT, database.build())

    configuration = Configuration().set_string("execution.target", options.target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.from_collection(VISITS, VISIT).sink_to(visits).uid("visits")
    env.execute("visits")


if __name__ == "__main__":
    main()
