"""The ledger: sums by tenant, model and hour, in a database."""

import sqlite3
import threading
from datetime import UTC, datetime

import pytest
from sqlalchemy import MetaData
from sqlalchemy.exc import OperationalError

from headway.core import ModelName, TenantId
from headway.errors import ConfigError, HeadwayError
from headway.tenancy import (
    Ask,
    Ending,
    Outcome,
    Period,
    QuotaParams,
    TenantParams,
    Usage,
    open_ledger,
    used_before,
)
from headway.tenancy import ledger as ledger_module
from headway.units import NS_PER_S

ACME, OTHER, OCR = TenantId("acme"), TenantId("other"), ModelName("ocr")
HOUR_NS = int(datetime(2026, 11, 30, 15, tzinfo=UTC).timestamp()) * NS_PER_S
ASK = Ask(OCR, 2, 64)
DONE = Outcome(Ending.COMPLETED, rows=2, device_ns=5, bytes_out=32)


@pytest.fixture
def url(tmp_path):
    """A database that is not there yet."""
    return f"sqlite:///{tmp_path}/usage.db"


def test_ledger_adds_up_a_line_for_each_tenant_model_and_hour(url):
    """Over several writes, and over a restart."""
    with open_ledger(url) as ledger:
        ledger.note(ACME, ASK, DONE, HOUR_NS)
        ledger.note(ACME, ASK, Outcome(Ending.EXPIRED, is_violation=True), HOUR_NS + 1)
        ledger.write()
        ledger.note(ACME, ASK, DONE, HOUR_NS + 3600 * NS_PER_S)
    with open_ledger(url) as ledger:
        ledger.note(ACME, ASK, DONE, HOUR_NS + 2)
        ledger.write()
        found = {one.keys: one.usage for one in ledger.sums(("tenant", "model", "hour"))}
    assert list(found) == [
        ("acme", "ocr", "2026-11-30T15:00Z"),
        ("acme", "ocr", "2026-11-30T16:00Z"),
    ]
    assert found["acme", "ocr", "2026-11-30T15:00Z"] == Usage(
        requests=3, completed=2, expired=1, violations=1, rows=4, device_ns=10, bytes_in=192,
        bytes_out=64,
    )  # fmt: skip


def test_ledger_sums_by_what_is_asked_and_in_the_time_that_is_asked(url):
    """By day, of one tenant, from an hour to another."""
    with open_ledger(url) as ledger:
        for hours, tenant in ((0, ACME), (1, OTHER), (12, ACME), (40, ACME)):
            ledger.note(tenant, ASK, DONE, HOUR_NS + hours * 3600 * NS_PER_S)
        ledger.write()
        by_day = {one.keys: one.usage.requests for one in ledger.sums(("day",), tenant=ACME)}
        hour_s = HOUR_NS // NS_PER_S
        part = ledger.sums(("tenant",), since_unix_s=hour_s + 3600, until_unix_s=hour_s + 7200)
    assert by_day == {("2026-11-30",): 1, ("2026-12-01",): 1, ("2026-12-02",): 1}
    assert [one.keys for one in part] == [("other",)]


def test_ledger_tells_what_was_used_since_an_instant(url):
    """For a quota that goes on after a restart."""
    with open_ledger(url) as ledger:
        ledger.note(ACME, ASK, DONE, HOUR_NS)
        ledger.note(ACME, ASK, DONE, HOUR_NS + 3600 * NS_PER_S)
        ledger.note(OTHER, ASK, DONE, HOUR_NS + 3600 * NS_PER_S)
        ledger.write()
        end_ns = HOUR_NS + 7200 * NS_PER_S
        assert ledger.used_ns(ACME, HOUR_NS, end_ns) == 10
        assert ledger.used_ns(ACME, HOUR_NS + 3600 * NS_PER_S, end_ns) == 5
        assert ledger.used_ns(ACME, HOUR_NS, HOUR_NS + 3600 * NS_PER_S) == 5
        assert ledger.used_ns(TenantId("nobody"), 0, end_ns) == 0


def test_ledger_keeps_what_a_database_refuses_until_it_takes_it(url, tmp_path, caplog):
    """A database that is locked loses nothing, and is complained of once."""
    with open_ledger(url) as ledger:
        ledger.note(ACME, ASK, DONE, HOUR_NS)
        ledger.write()
        with sqlite3.connect(tmp_path / "usage.db") as other:
            other.execute("ALTER TABLE headway_usage RENAME TO elsewhere")
        for _ in range(3):
            ledger.note(ACME, ASK, DONE, HOUR_NS)
            ledger.write()
        assert len(caplog.records) == 1
        with sqlite3.connect(tmp_path / "usage.db") as other:
            other.execute("ALTER TABLE elsewhere RENAME TO headway_usage")
        ledger.write()
        assert ledger.sums(("tenant",))[0].usage.requests == 4
        other.close()


def test_two_servers_may_share_a_ledger(url):
    """Sums are added in the database, not over what another has written."""
    with open_ledger(url) as first, open_ledger(url) as second:
        for ledger in (first, second, first):
            ledger.note(ACME, ASK, DONE, HOUR_NS)
            ledger.write()
        assert second.sums(("tenant",))[0].usage.requests == 3


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "cannot be opened"),
        ("postgresql+nothing://me:secret@here/usage", "cannot be opened"),
        ("postgresql://me:secret@here:notaport/usage", "cannot be opened"),
    ],
)
def test_ledger_that_cannot_be_opened_says_so_without_its_password(url, message):
    """The hint shows what a URL looks like."""
    with pytest.raises(ConfigError, match=message) as raised:
        open_ledger(url)
    assert "sqlite:///" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_reading_makes_no_database(tmp_path):
    """A name that was mistyped is told, not made."""
    path = tmp_path / "other.db"
    with pytest.raises(ConfigError, match="there is no ledger"):
        open_ledger(f"sqlite:///{path}", creates=False)
    assert not path.exists()
    sqlite3.connect(path).close()
    with (
        open_ledger(f"sqlite:///{path}", creates=False) as ledger,
        pytest.raises(HeadwayError, match="cannot be read"),
    ):
        ledger.sums(("tenant",))


def test_a_line_that_no_database_takes_keeps_no_other_out_of_it(url, caplog):
    """It is dropped with a word; the rest is written."""
    with open_ledger(url) as ledger:
        ledger.note(ACME, ASK, Outcome(Ending.COMPLETED, tokens=1 << 70), HOUR_NS)
        ledger.note(OTHER, ASK, DONE, HOUR_NS)
        ledger.write()
        assert [one.keys for one in ledger.sums(("tenant",))] == [("other",)]
        ledger.note(ACME, ASK, DONE, HOUR_NS)
        ledger.write()
        assert [one.keys for one in ledger.sums(("tenant",))] == [("acme",), ("other",)]
    assert "is dropped" in caplog.text


def test_closing_does_not_wait_for_a_database_that_does_not_answer(url, monkeypatch, caplog):
    """What was not written is told."""
    never = threading.Event()
    monkeypatch.setattr(ledger_module, "_CLOSE_S", 0.0)
    ledger = open_ledger(url)
    monkeypatch.setattr(ledger, "_store", lambda lines: never.wait())
    ledger.note(ACME, ASK, DONE, HOUR_NS)
    ledger.start()
    ledger.close()
    assert "does not answer" in caplog.text
    never.set()
    ledger.close()


def test_two_servers_may_make_the_table_at_the_same_moment(url, monkeypatch):
    """Who comes second finds it there, and goes on."""
    open_ledger(url).close()
    monkeypatch.setattr(MetaData, "create_all", _as_if_it_was_not_there)
    open_ledger(url).close()
    with pytest.raises(ConfigError):
        open_ledger(url.replace("usage.db", "other.db"))


def _as_if_it_was_not_there(metadata, engine):
    raise OperationalError("CREATE TABLE", None, Exception("table already exists"))


def test_quota_debt_of_the_period_before_outlives_a_restart(url):
    """A burst is taken off the next period, whoever counts it."""
    quota = QuotaParams(device_ns=100, period=Period.HOUR, burst_ns=50)
    params = TenantParams(tenant=ACME, quota=quota)
    with open_ledger(url) as ledger:
        spent = Outcome(Ending.COMPLETED, rows=1, device_ns=140)
        ledger.note(ACME, ASK, spent, HOUR_NS)
        ledger.note(ACME, ASK, DONE, HOUR_NS + 3600 * NS_PER_S)
        ledger.write()
        found = [
            used_before(ledger, [params], HOUR_NS + hours * 3600 * NS_PER_S + 1)[ACME]
            for hours in range(4)
        ]
    assert found == [140, 45, 0, 0]
    assert used_before(None, [params], HOUR_NS) == {}
