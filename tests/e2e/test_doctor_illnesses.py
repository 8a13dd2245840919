"""Illnesses that are really caused, in a real server, and found; and healthy runs, not alarmed.

The cases are those of `benchmarks/doctor.py`. Where the machine is too busy with something else to
tell, the doctor says so, and the test is skipped with its words.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from sickbay.cases import HEALTHY, TOLERATED, cores_count, ill
from sickbay.ward import EVERY_NS, WallClock, examined, served, under_load

from headway.cli import EXIT_MISSED, main
from headway.doctor import (
    Diagnosis,
    Finding,
    Severity,
    chart_of,
    diagnose,
    find_patient,
    read_recorded,
    watch,
)
from headway.errors import HeadwayError

pytestmark = pytest.mark.timeout(120)

TRIES = 3
"""Servers with one illness that are examined at most: what shows in times alone is found in most of
them, not in each (`benchmarks/doctor.py` counts how often)."""
NEEDS_TWO_CORES = pytest.mark.skipif(cores_count() < 2, reason="needs two cores")


def finding_of(diagnosis: Diagnosis, code: str) -> Finding:
    """The one finding of a code."""
    found = [finding for finding in diagnosis.findings if finding.code == code]
    why = diagnosis.unknown.get(code, "")
    busy = [each.title for each in diagnosis.findings if each.code == "noisy_neighbour"]
    if not found and ("other programs" in why or busy):
        pytest.skip(f"cannot be told here: {why or busy[0]}")
    assert len(found) == 1, (diagnosis.findings, diagnosis.unknown)
    return found[0]


class Found(NamedTuple):
    """An illness, and all that was said with it."""

    finding: Finding
    diagnosis: Diagnosis


def found_in(folder: Path, code: str) -> Found:
    """What is said of the first server with an illness in which it is found."""
    diagnosis = examined(folder, ill(code)).diagnosis
    for number in range(1, TRIES):
        if code in {finding.code for finding in diagnosis.findings}:
            break
        again = folder / f"again-{number}"
        again.mkdir()
        diagnosis = examined(again, ill(code)).diagnosis
    return Found(finding_of(diagnosis, code), diagnosis)


def value_of(finding: Finding, name: str) -> float:
    """A number of its evidence."""
    return next(float(one.value) for one in finding.evidence if one.name == name)


def alarms(diagnosis: Diagnosis) -> set[str]:
    """Codes of what is more than a note, neighbours of the whole test aside."""
    return {
        finding.code
        for finding in diagnosis.findings
        if finding.severity is not Severity.NOTE and finding.code not in TOLERATED
    }


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_healthy_server_alarms_nobody(tmp_path, case):
    """Nothing is found but notes, and what could be checked was checked."""
    diagnosis = examined(tmp_path, case).diagnosis
    assert alarms(diagnosis) == set(), diagnosis.findings
    assert {"failing_batches", "budget_infeasible", "overload"} <= set(diagnosis.healthy)
    assert "memory_leak" not in diagnosis.unknown


def test_leaking_model_is_found_in_its_worker(tmp_path):
    """A model that keeps something of every call: the worker is named, with its growth."""
    found, diagnosis = found_in(tmp_path, "memory_leak")
    assert found.severity is Severity.SERIOUS
    assert found.confidence_ratio > 0.99
    assert found.subject.startswith("worker ")
    assert value_of(found, "growth at least (99 %)") > 0
    assert alarms(diagnosis) == {"memory_leak"}


def test_memory_that_an_unload_leaves_behind_is_found(tmp_path):
    """Of two models that come and go, the one whose weights stay is named, and no other."""
    found = found_in(tmp_path, "memory_kept").finding
    assert found.subject == "KeepsModels"
    assert value_of(found, "kept after its unload") > 40


def test_model_that_copies_row_by_row_is_found(tmp_path):
    """Time in proportion to rows, at the speed of memory, is copying."""
    found = found_in(tmp_path, "copies_per_row").finding
    assert (found.subject, found.severity) == ("CopiesRows", Severity.WARNING)
    assert value_of(found, "of the larger batch, not shared by its rows") > 0.7


def test_transfers_that_outweigh_the_model_are_found(tmp_path):
    """A model that only hands back a large tensor spends its time on the copy of it."""
    assert found_in(tmp_path, "transfer_bound").finding.subject == "MovesMuch"


def test_way_to_a_model_that_outweighs_it_is_found(tmp_path):
    """Tiny batches, one row each, while others wait: the slot is busy with the way there."""
    found = found_in(tmp_path, "host_bound").finding
    assert value_of(found, "batches of which it is more than half") > 0.5


def test_parameters_that_keep_batches_small_are_found(tmp_path):
    """Requests that differ in a parameter run one by one while others wait, and it is said why."""
    found = found_in(tmp_path, "small_batches").finding
    assert value_of(found, "kept apart by parameters") > 0.9


def test_oversubscribed_pool_is_found_by_its_waiting_threads(tmp_path):
    """Eight threads a core: the worker's threads wait for each other."""
    found = found_in(tmp_path, "too_many_threads").finding
    assert value_of(found, "time that they waited for a core") > 0.3


@NEEDS_TWO_CORES
def test_slots_that_wait_for_one_lock_are_found(tmp_path):
    """A model that computes in Python: beside another it takes as long as after it."""
    assert value_of(found_in(tmp_path, "slots_in_turn").finding, "slower") > 1.5


@NEEDS_TWO_CORES
def test_neighbour_is_found_and_the_threads_are_not_blamed(tmp_path):
    """Programs beside the server take its cores: it is told how much, and no pool is blamed."""
    found, diagnosis = found_in(tmp_path, "noisy_neighbour")
    assert value_of(found, "cores that others kept busy") > 0.5
    assert "too_many_threads" not in alarms(diagnosis)


def test_worker_that_dies_again_and_again_is_found(tmp_path):
    """Three deaths are a loop; the model of the worker is named, not the one beside it."""
    found = found_in(tmp_path, "crash_loop").finding
    assert (found.subject, found.severity) == ("Dies", Severity.SERIOUS)
    assert value_of(found, "losses") == 3


@pytest.mark.parametrize(
    ("code", "subject"),
    [
        ("failing_batches", "Raises"),
        ("cold_start", "StartsSlowly"),
        ("budget_infeasible", "TakesLong, tier hasty"),
        ("overload", "cpu:0"),
    ],
)
def test_broken_promise_is_found(tmp_path, code, subject):
    """Errors, a slow first call, an impossible budget, too many requests: each by its code."""
    assert found_in(tmp_path, code).finding.subject == subject


def test_last_steps_of_a_server_are_enough(tmp_path):
    """Without a journal the steps are asked of the server itself."""
    case = ill("failing_batches")
    with served(tmp_path, case.config) as ward:
        patient = find_patient(url=ward.url)
        try:
            patient.door.text("/admin/records")
        except HeadwayError as error:
            pytest.skip(f"this server does not tell its last steps: {error}")
        with under_load(ward.port, case.loads):
            readings = watch(patient, WallClock(), for_ns=10 * EVERY_NS, every_ns=EVERY_NS)
            chart = chart_of(patient, readings, read_recorded())
    assert finding_of(diagnose(chart), "failing_batches").subject == "Raises"


def test_verb_finds_a_leak_and_exits_with_its_code(tmp_path, capsys):
    """`headway doctor watch --url`: the finding on stdout, 3 as the exit code."""
    case = ill("memory_leak")
    with served(tmp_path, case.config) as ward, under_load(ward.port, case.loads):
        words = ["doctor", "watch", "--url", ward.url, "--minutes", "0.06", "--every", "100ms"]
        code = main([*words, "--format", "json"])
    diagnosis = json.loads(capsys.readouterr().out)
    assert code == EXIT_MISSED
    assert "memory_leak" in [finding["code"] for finding in diagnosis["findings"]]
