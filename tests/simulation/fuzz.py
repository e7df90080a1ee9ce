"""The fuzzer's command line: ``python -m tests.simulation.fuzz 17`` runs a seed and shows its smallest failing case.

Several seeds, or ranges of them (``0-500``), may be given; ``--seconds`` bounds how long a case is made smaller.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.simulation.fuzz_draw import draw
from tests.simulation.fuzz_program import Case
from tests.simulation.fuzz_run import check
from tests.simulation.fuzz_shrink import shrink


def report(seed: int, case: Case, seconds: float) -> str:
    """A failing case, made small, with what to run."""
    kind = kind_of(check(case).problem)
    small = shrink(case, lambda smaller: kind_of(check(smaller).problem) == kind, seconds)
    return f"seed {seed}: {check(small).problem}\n{small}\nAgain: python -m tests.simulation.fuzz {seed}"


def kind_of(problem: str | None) -> str | None:
    """Whether a problem is an error, and of which kind, or wrong output: a smaller case must have the same."""
    return problem and ("output" if problem.startswith(("node ", "state ")) else problem.partition(":")[0])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fuzz", description=__doc__)
    parser.add_argument("seeds", nargs="+", help="a seed, or a range FIRST-LAST")
    parser.add_argument("--seconds", type=float, default=60.0, help="for making each failing case smaller")
    parser.add_argument("--progress", action="store_true", help="print every hundredth seed")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    failed, compared, events, results = [], Counter[str](), Counter[str](), 0
    begun = time.monotonic()
    for given in options.seeds:
        first, _, last = given.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            case = draw(seed)
            verdict = check(case)
            compared.update(verdict.compared.values())
            events.update(verdict.events)
            results += verdict.results
            if options.progress and seed % 100 == 0:
                print(f"seed {seed}", file=sys.stderr, flush=True)
            if verdict.problem is not None:
                failed.append(seed)
                shown = report(seed, case, options.seconds) if options.seconds else f"seed {seed}: {verdict.problem}"
                print(shown, flush=True)
    seconds = time.monotonic() - begun
    print(f"{results} records in {seconds:.0f} s; outputs compared {dict(compared)}; {dict(events)}; failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
