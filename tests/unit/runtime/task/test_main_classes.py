"""Classes of a main script, as they arrive in a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

SCRIPT = """
import pickle, sys
from dataclasses import dataclass
from confluent_kafka import Producer  # of a module that only the package itself can import

@dataclass
class Payment:
    amount: int

class Sending:
    kind = Producer

from tidemill.runtime.task.main_classes import main_script_classes
sys.stdout.buffer.write(pickle.dumps(main_script_classes()))
"""

WORKER = """
import pickle, sys
from tidemill.runtime.task.main_classes import install_main_classes
install_main_classes(pickle.loads(sys.stdin.buffer.read()))
print(Payment(7))
"""


def test_a_class_that_cannot_be_read_does_not_keep_the_others_back() -> None:
    def run(program: str, data: bytes = b"") -> bytes:
        environment = {"PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, input=data, env=environment, capture_output=True, check=True).stdout

    assert run(WORKER, run(SCRIPT)).decode() == "Payment(amount=7)\n"
