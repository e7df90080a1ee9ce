"""Runs the differential cases on PyFlink, and writes their results to tests/semantics/recorded/pyflink.json.

It needs an environment with apache-flink 2.3 and Java, and nothing of Tidemill: the modules of the cases are copied,
with ``tidemill`` replaced by ``pyflink``, as a program would be ported in the other direction.

python -m venv /tmp/flink && /tmp/flink/bin/pip install 'setuptools<81' 'apache-flink==2.3.*'
/tmp/flink/bin/python tools/record_pyflink.py            # records what is missing
/tmp/flink/bin/python tools/record_pyflink.py timers-    # records again what begins with this
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]
CASES: Final = HERE / "tests" / "semantics" / "differential"
RECORDED: Final = HERE / "tests" / "semantics" / "recorded" / "pyflink.json"
#: A job of a few records that takes longer is stuck.
SECONDS: Final = 100
#: How many programs are one job, and how many jobs run in one process.
GROUP: Final = 12
JOBS: Final = 20
#: The exit code of a process that has not recorded everything.
MORE: Final = 3
#: The ids of the running job, and of programs that must run alone.
TRYING: Final = RECORDED.with_name("pyflink-trying.json")
ALONE: Final = RECORDED.with_name("pyflink-alone.json")
#: The last line of a Python traceback, also inside the text of a Java exception.
_PYTHON_ERROR: Final = re.compile(
    r"^(?:Caused by: )?((?:[\w.]*\.)?(?:\w*Error|\w*Exception|StopIteration))(?:: (.*))?$"
)


def main(prefixes: list[str]) -> None:
    """Records in processes that run a few jobs each, as PyFlink's workers leave threads behind."""
    forget(prefixes)
    while True:
        child = subprocess.Popen([sys.executable, __file__, "--part"], start_new_session=True)
        code = waited(child)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if TRYING.exists():  # the job is stuck, or has ended the process
            stuck = json.loads(TRYING.read_text())
            TRYING.unlink()
            if len(stuck) == 1:
                write({**read(RECORDED), stuck[0]: {"error": "stuck"}})
            else:
                ALONE.write_text(json.dumps({**read(ALONE), **dict.fromkeys(stuck, True)}))
        elif code == 0:
            ALONE.unlink(missing_ok=True)
            return


def waited(child: subprocess.Popen[bytes]) -> int:
    """Waits for a process, or until one of its jobs has run for too long."""
    begin = time.time()
    while (code := child.poll()) is None:
        with suppress(FileNotFoundError):
            begin = max(begin, RECORDED.stat().st_mtime, TRYING.stat().st_mtime)
        if time.time() - begin > SECONDS:
            return MORE
        time.sleep(1)
    return code


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def forget(prefixes: list[str]) -> None:
    write({id_: one for id_, one in read(RECORDED).items() if not any(map(id_.startswith, prefixes))})
    for path in (TRYING, ALONE):
        path.unlink(missing_ok=True)


def part() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # Java starts `python` to find PyFlink
    with tempfile.TemporaryDirectory() as folder, Path(folder, "printed").open("w+b") as printed:
        told = os.fdopen(os.dup(1), "w")
        os.dup2(printed.fileno(), 1)  # the JVM, which prints records, inherits it
        cases = ported(Path(folder))
        recorder = Recorder(read(RECORDED), printed, told)
        if not any("-coded: " in id_ for id_ in recorder.found):
            recorder.keep(all_coded(cases))
        recorder.record(cases)
        ids = {one.id for one in [*cases.CALLS, *cases.PROGRAMS]}
        ids |= {label for values in cases.VALUES for label in values.labels()}
        write({id_: outcome for id_, outcome in recorder.found.items() if id_ in ids})
    os._exit(0)


class Recorder:
    """Runs many programs as one job, as a job takes seconds to start. A job that fails is split in two."""

    def __init__(self, found: dict[str, Any], printed: Any, told: Any) -> None:
        self.found = found
        self.printed = printed
        self.told = told
        self.alone = read(ALONE)
        self.jobs = 0

    def record(self, cases: Any) -> None:
        for call in cases.CALLS:
            if call.id not in self.found:
                self.keep({call.id: called(call)})
        groups: dict[Any, list[Any]] = {}
        for program in cases.PROGRAMS:
            if program.id not in self.found:
                kind = (program.printed, program.batch, tuple(program.settings.items()), program.id.split("-")[0])
                groups.setdefault((*kind, program.id if program.id in self.alone else ""), []).append(program)
        # Programs that must run alone come last: they are slow, or do not end.
        for programs in sorted(groups.values(), key=lambda programs: programs[0].id in self.alone):
            for start in range(0, len(programs), GROUP):
                self.programs(programs[start : start + GROUP])
        for values in [one for one in cases.VALUES if one.way != "coded"]:
            pairs = zip(values.labels(), values.values, strict=True)
            left = [pair for pair in pairs if pair[0] not in self.found and self.fits(values, pair[0])]
            if left and left[0][0] in self.alone:
                for pair in left:
                    self.values(values, [pair])
            elif left:
                self.values(values, left)

    def fits(self, values: Any, label: str) -> bool:
        """Whether the serializer of the type takes a value: other values may only make a job wait for ever."""
        return "result" in self.found[label.replace(f"-{values.way}: ", "-coded: ")]

    def keep(self, outcomes: dict[str, Any]) -> None:
        self.found.update(outcomes)
        for id_, outcome in outcomes.items():
            print(f"{time.strftime('%X')} {id_}: {str(outcome)[:150]}", file=self.told, flush=True)
        write(self.found)
        TRYING.unlink(missing_ok=True)

    def begin(self, ids: list[str]) -> None:
        self.jobs += 1
        if self.jobs > JOBS:
            os._exit(MORE)
        TRYING.write_text(json.dumps(ids))

    def values(self, case: Any, pairs: list[tuple[str, Any]]) -> None:
        from tests.semantics.differential.program import shown

        self.begin([label for label, _ in pairs])
        try:
            env = environment(batch=False, settings={"python.state.cache-size": "1"} if case.way == "state" else {})
            with case.build([value for _, value in pairs], env).execute_and_collect() as records:
                texts = [one if case.way != "collected" else shown(one) for one in records]
            if len(texts) != len(pairs):
                raise LostError(f"{len(pairs)} values, {len(texts)} results")
        except Exception as error:
            if len(pairs) == 1:
                self.keep({pairs[0][0]: {"error": last_python_error(error)}})
                return
            middle = len(pairs) // 2
            self.values(case, pairs[:middle])
            self.values(case, pairs[middle:])
        else:
            self.keep({label: {"result": text} for (label, _), text in zip(pairs, texts, strict=True)})

    def programs(self, programs: list[Any]) -> None:
        buildable = []
        for program in programs:
            try:
                program.build(environment(program.batch, program.settings))
            except Exception as error:
                self.keep({program.id: {"error": last_python_error(error)}})
            else:
                buildable.append(program)
        if not buildable:
            return
        self.begin([program.id for program in buildable])
        try:
            outcomes = together(buildable, self.printed)
        except Exception as error:
            if len(buildable) == 1:
                self.keep({buildable[0].id: {"error": last_python_error(error)}})
                return
            middle = len(buildable) // 2
            self.programs(buildable[:middle])
            self.programs(buildable[middle:])
        else:
            self.keep(outcomes)


class LostError(Exception):
    """PyFlink has lost records, without an error."""


def write(found: dict[str, Any]) -> None:
    lines = ",\n".join(f"{json.dumps(id_)}: {json.dumps(outcome)}" for id_, outcome in sorted(found.items()))
    RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def ported(folder: Path) -> Any:
    """Imports a copy of the modules of the cases, with the imports of PyFlink."""
    target = folder / "tests" / "semantics" / "differential"
    shutil.copytree(CASES, target)
    for module in target.glob("*.py"):
        text = module.read_text(encoding="utf-8")
        module.write_text(re.sub(r"\btidemill\b", "pyflink", text), encoding="utf-8")
    sys.path.insert(0, str(folder))
    return importlib.import_module("tests.semantics.differential.cases")


def called(case: Any) -> dict[str, Any]:
    from tests.semantics.differential.program import shown

    try:
        return {"result": shown_call(case.call(), shown)}
    except Exception as error:
        return {"error": last_python_error(error)}


def shown_call(result: Any, shown: Any) -> str:
    """Objects without a text of their own are shown as the name of their class."""
    text: str = shown(result)
    return f"<{type(result).__name__}>" if text.endswith(" object>") else text


def all_coded(cases: Any) -> dict[str, Any]:
    """What the serializer of each type makes of each value: in processes of their own, as some of them crash."""
    from pyflink.fn_execution import coders  # noqa: F401 - imported once, before the processes are forked

    outcomes: dict[str, Any] = {}
    types = importlib.import_module("tests.semantics.differential.cases_values").TYPES
    for case in [one for one in cases.VALUES if one.way == "coded"]:
        for label, value in zip(case.labels(), case.values, strict=True):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(writing, json.dumps(coded(types[case.type][0](), value)).encode())
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                told = pipe.read()
            os.waitpid(child, 0)
            outcomes[label] = json.loads(told) if told else {"error": "the process crashed"}
    return outcomes


def coded(kind: Any, value: Any) -> dict[str, Any]:
    from pyflink.fn_execution import coders

    from tests.semantics.differential.program import shown

    try:
        serializer = coders.from_type_info(kind).get_impl()
        return {"result": shown(serializer.decode(serializer.encode(value)))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def environment(batch: bool, settings: dict[str, str]) -> Any:
    from pyflink.common import Configuration
    from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def together(programs: list[Any], printed: Any) -> dict[str, Any]:
    """Runs programs of the same mode and settings as one job."""
    from pyflink.common import Types

    from tests.semantics.differential.program import lines, shown

    env = environment(programs[0].batch, programs[0].settings)
    records: dict[str, list[str]] = {program.id: [] for program in programs}
    if programs[0].printed:
        printed.truncate(0)
        printed.seek(0)
        for program in programs:
            program.build(env).print(program.id)
        env.execute()
        time.sleep(0.5)
        printed.seek(0)
        told = printed.read().decode().splitlines()
    else:
        texts = []
        for program in programs:
            before = f"{program.id}> "
            labelled = partial(_labelled, before, shown)
            texts.append(program.build(env).map(labelled, Types.STRING()))
        united = texts[0].union(*texts[1:]) if len(texts) > 1 else texts[0]
        with united.execute_and_collect() as found:
            told = list(found)
    for line in told:
        id_, _, text = line.partition("> ")
        records[id_].append(text)
    ordered = {program.id: program.ordered for program in programs}
    return {id_: {"records": lines(texts, ordered[id_])} for id_, texts in records.items()}


def _labelled(before: str, shown: Any, record: Any) -> str:
    return before + (record if type(record) is str else shown(record))


def last_python_error(error: BaseException) -> str:
    """The error of the user's code, or of PyFlink, inside of what Java reports; without Java, the error itself."""
    text = str(error)  # of a Java exception, with its causes
    if not type(error).__name__.startswith(("Py4J", "Flink")):
        return f"{type(error).__name__}: {error}"
    found = [match for line in text.splitlines() if (match := _PYTHON_ERROR.match(line.strip()))]
    python = [match for match in found if "." not in match[1]]
    if not found:
        return text[:300]
    chosen = (python or found)[-1]
    return f"{chosen[1]}: {chosen[2] or ''}"[:300]


if __name__ == "__main__":
    if sys.argv[1:] == ["--part"]:
        part()
    else:
        main(sys.argv[1:])
