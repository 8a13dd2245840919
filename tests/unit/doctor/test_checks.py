"""The table of checks, and what a diagnosis makes of their answers."""

import re
from pathlib import Path

import pytest
from tests.unit.doctor.charts import batches, of_memory, run_of

from headway.doctor import (
    CHECKS,
    SURE_RATIO,
    Chart,
    Check,
    Diagnosis,
    Evidence,
    Finding,
    Severity,
    Sign,
    Source,
    Unknown,
    diagnose,
    worst,
)

HERE = Path(__file__).parent
CHART = of_memory([1.0])


def a_check(*answers: Sign | Unknown, code: str = "ill", severity=Severity.WARNING) -> Check:
    return Check(
        code=code,
        title="it is ill",
        severity=severity,
        needs=(Source.PROCESSES,),
        criterion="always",
        remedy="rest",
        look=lambda _: answers,
    )


def a_sign(sure: float = 1.0, **what: object) -> Sign:
    return Sign(subject="m", confidence_ratio=sure, evidence=(Evidence("n", 1),), **what)  # type: ignore[arg-type]


def test_sure_sign_is_a_finding_in_the_words_of_its_check() -> None:
    """A sign may say better; else the table's words stand."""
    (finding,) = diagnose(CHART, [a_check(a_sign())]).findings
    assert (finding.title, finding.remedy, finding.severity) == ("it is ill", "rest", "warning")
    own = a_sign(title="worse", remedy="run", severity=Severity.SERIOUS)
    (finding,) = diagnose(CHART, [a_check(own)]).findings
    assert (finding.title, finding.remedy, finding.severity) == ("worse", "run", "serious")


def test_unsure_sign_is_told_and_no_finding() -> None:
    """Just below the threshold nothing is found, and it is said how sure it was."""
    diagnosis = diagnose(CHART, [a_check(a_sign(SURE_RATIO - 0.01))])
    assert (diagnosis.findings, diagnosis.healthy) == ((), ())
    assert "94 % sure" in diagnosis.unknown["ill"]


def test_check_without_what_it_needs_is_unknown_and_not_asked() -> None:
    """With the reason where one is known."""

    def never(_: Chart) -> list[Sign]:
        raise AssertionError

    check = Check(
        code="ill",
        title="t",
        severity=Severity.NOTE,
        needs=(Source.RECORDS, Source.TRACE),
        criterion="c",
        remedy="r",
        look=never,
    )
    assert diagnose(Chart(), [check]).unknown == {"ill": "no records; no trace"}
    chart = Chart(absent={Source.RECORDS: "the server does not tell"})
    assert diagnose(chart, [check]).unknown == {"ill": "the server does not tell; no trace"}


def test_check_may_judge_one_subject_and_not_another() -> None:
    """Both are told: the finding, and what could not be judged."""
    diagnosis = diagnose(CHART, [a_check(a_sign(), Unknown(subject="other", why="too few"))])
    assert len(diagnosis.findings) == 1
    assert diagnosis.unknown == {"ill": "other: too few"}
    assert diagnose(CHART, [a_check()]).healthy == ("ill",)


def test_findings_are_in_order_of_what_matters() -> None:
    """The most severe first, then the surest; notes do not make a server ill."""
    diagnosis = diagnose(
        CHART,
        [
            a_check(a_sign(0.97), code="b"),
            a_check(a_sign(0.99), code="a"),
            a_check(a_sign(), code="c", severity=Severity.SERIOUS),
            a_check(a_sign(), code="d", severity=Severity.NOTE),
        ],
    )
    assert [finding.code for finding in diagnosis.findings] == ["c", "a", "b", "d"]
    assert worst(diagnosis.findings) is Severity.SERIOUS
    assert not diagnosis.is_healthy
    assert worst(()) is None
    note = Finding(
        code="d", title="t", severity=Severity.NOTE, subject="", confidence_ratio=1.0,
        evidence=(), remedy="r",
    )  # fmt: skip
    assert Diagnosis(findings=(note,), healthy=(), unknown={}).is_healthy


def test_codes_are_stable_names_and_texts_are_sentences() -> None:
    """Programs rely on codes, people read the rest."""
    codes = [check.code for check in CHECKS]
    assert len(set(codes)) == len(codes)
    for check in CHECKS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", check.code)
        assert check.title[0].islower()
        assert check.criterion.endswith(".")
        assert not check.remedy.endswith(".")
        assert check.needs


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_every_check_is_shown_to_find_and_to_leave_in_peace(check: Check) -> None:
    """Each code stands in a test that finds it, and in one that is fine."""
    text = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert f'found("{check.code}"' in text
    assert f'is_fine("{check.code}"' in text


def test_every_check_has_an_answer_to_any_chart() -> None:
    """Each is in a finding, healthy, or not told with a reason."""
    for chart in (Chart(), CHART, run_of(), run_of(batches(60))):
        diagnosis = diagnose(chart)
        found = {finding.code for finding in diagnosis.findings}
        assert found | set(diagnosis.healthy) | set(diagnosis.unknown) == {c.code for c in CHECKS}
        assert all(diagnosis.unknown.values())
