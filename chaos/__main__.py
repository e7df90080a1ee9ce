"""``python -m chaos --minutes 20 --seed 1``: exit code 0 if output and state are correct, otherwise 1."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from chaos.run import Plan, Run, lines_of
from chaos.variant import VARIANTS, variant_class


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="Runs a job on a real cluster while faults occur.")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to inject faults")
    parser.add_argument("--job", choices=VARIANTS, default="state", help="the job to run")
    parser.add_argument("--fault", action="append", help="inject only this fault; can be repeated, faults run in order")
    parser.add_argument("--seed", type=int, default=1, help="seed that determines which faults occur, and when")
    parser.add_argument("--keep", type=Path, help="a folder for logs, output and checkpoints that is kept")
    arguments = parser.parse_args()
    variant = variant_class(arguments.job)
    for fault in arguments.fault or ():
        if fault not in variant.faults:
            parser.error(f"job {arguments.job} has no fault {fault!r}; choose from {', '.join(variant.faults)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that everything is cleaned up
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(arguments.seed, arguments.minutes, folder, tuple(arguments.fault or ()), variant)
        verdict = Run(plan, lambda line: print(line, flush=True)).run()
        print("\n".join(lines_of(verdict, plan)))
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
