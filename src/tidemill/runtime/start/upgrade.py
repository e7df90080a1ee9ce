"""Starting a program from the state of another: the checks before anything runs.

Stored state is assigned to an operator by its uid, and to a state by its name. At every start, from a checkpoint or a
savepoint, :func:`check_restorable` compares the operators of the program with those of the manifest. It uses only these
two: no function is opened and no state file is read.

The types of individual states are known only when functions register them. A worker compares them with the stored types
before it reads a value (:mod:`tidemill.state.files.sections`). If a state is refused, the epoch is not committed, so
that an attempt to start loses nothing. A dry run (:mod:`tidemill.runtime.driver.dry_run`) reports the result in
advance.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tidemill.checkpoint.model import Manifest
from tidemill.common.reports.upgrade_report import Change, Outcome, UpgradeReport
from tidemill.errors import GraphError
from tidemill.graph.plan import JobPlan, OperatorPlan
from tidemill.runtime.task.operator_kinds import kind_refusal
from tidemill.state.codecs.serializers import Incompatible, compatibility, type_text

__all__ = ["check_restorable", "compare_operators", "describe_operators", "warn_of_derived_uids", "without_dropped"]

log = logging.getLogger(__name__)


def describe_operators(plan: JobPlan, head: Manifest) -> dict[str, Any]:
    """Descriptions of the operators of a program that resumes from ``head``, for later starts; stored in the manifest.

    The state of an operator that is no longer part of the program is ignored: its description contains ``dropped``, and
    ``since`` is the epoch since which its state is ignored, even if a later program has an operator with its uid again.
    """
    described: dict[str, dict[str, Any]] = {}
    for operator in (operator for chain in plan.chains for operator in chain.operators):
        described[operator.uid] = {
            "name": operator.name,
            "kind": operator.spec_kind,
            "keyed": operator.keyed,
            "operator_state": operator.operator_state,
        }
        if operator.keyed and operator.key_type is not None:
            described[operator.uid]["key_type"] = operator.key_type.describe()
        if operator.windows is not None:
            described[operator.uid]["windows"] = dict(operator.windows)
    for uid, known in head.operators.items():
        if uid not in described and (known.get("dropped") or _what_is_left(uid, known, head)):
            since = known["since"] if known.get("dropped") else head.epoch
            described[uid] = {"name": known["name"], "kind": known["kind"], "dropped": True, "since": since}
        elif "since" in known and uid in described:
            described[uid]["since"] = known["since"]
    return described


def without_dropped(sources: Mapping[str, Any], described: Mapping[str, Any] | None) -> dict[str, Any]:
    """The positions of sources by uid, without those of sources that are no longer part of the program."""
    return {uid: at for uid, at in sources.items() if not (described or {}).get(uid, {}).get("dropped")}


def check_restorable(
    plan: JobPlan, manifest: Manifest, described: Mapping[str, Any], *, allow_non_restored: bool
) -> None:
    """Raise if the operators of the program are incompatible with this manifest."""
    changes = compare_operators(plan, manifest, described, allow_non_restored=allow_non_restored)
    UpgradeReport(manifest.job_id, manifest.epoch, tuple(changes)).check()
    for change in changes:
        if change.outcome is Outcome.DROPPED:
            log.warning("job %s: %s", manifest.job_id, change.detail)


def warn_of_derived_uids(plan: JobPlan) -> None:
    """Log a warning that names the operators with state whose uid is derived from the program.

    A changed program may not find their state again.
    """
    found = [
        f"{operator.name!r}" + (f" ({operator.user_line})" if operator.user_line else "")
        for chain in plan.chains
        for operator in chain.operators
        if not operator.explicit_uid and (operator.keyed or operator.operator_state or operator.inputs == 0)
    ]
    if found:
        log.warning(
            "job %s: these operators have state but no uid, so a changed program may not find it again: %s. Call "
            ".uid('...') on them; with pipeline.auto-generate-uids: false a missing uid is an error",
            plan.name,
            ", ".join(found),
        )


def compare_operators(
    plan: JobPlan, manifest: Manifest, described: Mapping[str, Any], *, allow_non_restored: bool
) -> list[Change]:
    """The outcome for each operator with state; ``described`` are the manifest's descriptions of its operators."""
    program = {operator.uid: operator for chain in plan.chains for operator in chain.operators}
    changes = []
    for uid, description in described.items():
        operator = program.get(uid)
        if description.get("dropped"):
            continue
        if operator is not None:
            changes += _operator(operator, manifest, description)
        elif what := _what_is_left(uid, description, manifest):
            changes.append(_without_operator(uid, what, program, described, allow_non_restored))
    return changes


def _what_is_left(uid: str, description: Mapping[str, Any], manifest: Manifest) -> str:
    """A description of what a manifest contains for an operator, empty if nothing."""
    if description.get("keyed") or description.get("operator_state"):
        return "state of operator"
    if uid in manifest.sources:
        return "the position of source"
    # It is unknown whether the previous driver has committed them.
    return "results to be committed of sink" if uid in manifest.committables else ""


def _without_operator(
    uid: str,
    what: str,
    program: Mapping[str, OperatorPlan],
    described: Mapping[str, Any],
    allowed: bool,
) -> Change:
    name, kind = str(described[uid].get("name", uid)), described[uid].get("kind")
    if allowed:
        return Change(uid, name, "", Outcome.DROPPED, detail=f"{what} {name!r} is ignored")
    alike = [operator for operator in program.values() if operator.uid not in described and operator.spec_kind == kind]
    hint = "".join(f" Operator {o.name!r} has the new uid {o.uid!r}: is it the same one?" for o in alike[:1])
    detail = (
        f"the checkpoint has {what} {name!r} (uid {uid}), which is not part of the program.{hint} Give the operator "
        "the same uid as before, or ignore its state with execution.state-recovery.ignore-unclaimed-state: true"
    )
    return Change(uid, name, "", Outcome.REFUSED, detail=detail)


def _operator(operator: OperatorPlan, manifest: Manifest, description: Mapping[str, Any]) -> list[Change]:
    uid, name = operator.uid, operator.name
    where = f"operator {name!r} (uid {uid})"
    changes = []
    if (kinds := kind_refusal(operator, description)) is not None:
        was, now = kinds
        detail = (
            f"{where} has state of {was}, and is now {now}: its open windows or timers would never fire, or its state "
            "would never be read. Change it back, or give the operator another uid to start it empty, and ignore the "
            "old state with execution.state-recovery.ignore-unclaimed-state: true"
        )
        return [Change(uid, name, "", Outcome.REFUSED, was, now, detail)]
    if not operator.keyed:
        return []
    stored = manifest.max_parallelism.get(uid, operator.max_parallelism)
    if stored != operator.max_parallelism:
        detail = (
            f"{where} was started with max parallelism {stored} and now has {operator.max_parallelism}: it cannot be "
            f"changed, set it back to {stored}"
        )
        old, new = f"max parallelism {stored}", f"max parallelism {operator.max_parallelism}"
        changes.append(Change(uid, name, "", Outcome.REFUSED, old, new, detail, GraphError))
    key = description.get("key_type")
    if key is not None and operator.key_type is not None:
        declared = operator.key_type.describe()
        found = compatibility(key, declared, is_key=True)
        if isinstance(found, Incompatible):
            texts = f"keys: {type_text(key)}", f"keys: {type_text(declared)}"
            detail = (
                f"{where} has state for keys of another type than the program declares, and keys cannot be converted: "
                f"{found.reason}\n    stored:   {type_text(key)}\n    declared: {type_text(declared)}\n"
                "Declare the stored type again, or give the operator another uid to start it empty"
            )
            changes.append(Change(uid, name, "", Outcome.REFUSED, *texts, detail))
    return changes
