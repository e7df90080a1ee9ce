"""Servers of queryable state are found and stopped by other processes than their driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import ConfigurationError
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers.records import records_directory
from tidemill.ops.queryable import QueryableStateClient, address_of
from tidemill.ops.queryable.servers import QueryServer, recorded, servers


def test_a_server_is_found_asked_and_stopped(tidemill: Tidemill, tmp_path: Path) -> None:
    settings = {"execution.target": "local", "execution.job-id": "shop", "execution.checkpointing.dir": str(tmp_path)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    records = env.from_collection([(1, "one")], Types.TUPLE([Types.LONG(), Types.STRING()]))
    records.key_by(lambda record: record[0], Types.LONG()).as_queryable_state("kept")
    env.execute("shop")
    command = [sys.executable, "-m", "tidemill.ops.queryable", "--directory", str(tmp_path), "--job", "shop"]
    command += ["-D", "queryable-state.proxy.ports=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())
            address = (told["host"], told["port"])
            assert address_of("shop") == address
            (listed,) = json.loads(tidemill("queryable", "ls", "--json").stdout)
            assert (listed["job"], listed["pid"], listed["keeps_running"]) == ("shop", server.pid, False)
            with QueryableStateClient(*address, timeout=60) as client:
                assert client.get_plain("shop", "kept", 1).result(60).value == (1, "one")
                assert client.get_plain("shop", "kept", 99).result(60) == (1, None)
            stopped = tidemill("queryable", "stop", "shop", "--json")
            assert (stopped.exit_code, json.loads(stopped.stdout)["stopped"]) == (0, [server.pid])
            assert server.wait(60) == 0
        finally:
            server.kill()
    assert tidemill("queryable", "ls").stdout == "no servers\n"
    assert tidemill("queryable", "stop", "shop").exit_code == CommandExit.NOT_FOUND
    with pytest.raises(ConfigurationError, match="job shop has no queryable state server"):
        address_of("shop")


def test_the_record_of_a_server_that_was_killed_is_no_server() -> None:
    server = QueryServer("shop", "127.0.0.1", 9069, os.getpid(), "/checkpoints/shop", keeps_running=True)
    with recorded(server):
        assert servers() == [server]
    assert servers() == []
    left = records_directory() / "queryable-1.json"
    left.write_text("{}")
    assert servers() == []
    assert not left.exists()
