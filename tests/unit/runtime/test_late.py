"""Tiers that have late requests served: how late, what the answer says, and where it ends."""

import pytest
from tests.engine_rig import NORMAL, PATIENT, TIERS, Rig, a_plan

from headway.core import Complete, Expire, ExpireReason
from headway.errors import DeadlineExceededError
from headway.testing import run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS


def play(scenario, **setup):
    """Run a scenario on a loaded engine; nothing may be left of it."""

    async def main():
        rig = Rig([a_plan(tier=PATIENT)], **setup)
        await rig.load_all()
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def commands(rig, kind):
    return [c for record in rig.records for c in record.commands if isinstance(c, kind)]


@pytest.mark.parametrize(("service_ms", "late_ms"), [(20, 0), (21, 1), (119, 99)])
def test_late_answer_says_how_late_it_is(service_ms, late_ms):
    """An answer at the very deadline is in time; one after it is an answer all the same."""

    async def scenario(rig):
        reply = await rig.infer()
        assert reply.late_ns == late_ms * MS
        assert reply.budget_ns == TIERS[PATIENT].budget_ns

    play(scenario, service_ns=service_ms * MS)


def test_lateness_counts_from_the_budget_that_held():
    """A client that grants less than the tier does is late sooner, and waited for as long."""

    async def scenario(rig):
        reply = await rig.infer(budget_ns=5 * MS)
        assert reply.late_ns == 5 * MS

    play(scenario, service_ns=10 * MS)


def test_request_later_than_the_tier_allows_ends():
    """At the instant at which its tier no longer wants it, wherever it is then."""

    async def scenario(rig):
        with pytest.raises(DeadlineExceededError, match="the deadline passed while"):
            await rig.infer()
        assert rig.clock.now_ns() == 120 * MS
        (expired,) = commands(rig, Expire)
        assert expired.reason is ExpireReason.DEADLINE_PAST

    play(scenario, service_ns=121 * MS)


def test_late_request_that_waits_is_started():
    """One that could no longer be in time is run, where its tier would rather have it late."""

    async def scenario(rig):
        first, second = rig.infer(), rig.infer(width=2)
        assert (await first).late_ns == 0
        assert (await second).late_ns == 12 * MS
        assert len(commands(rig, Complete)) == 2

    play(scenario, service_ns=16 * MS)


def test_tier_that_drops_late_requests_ends_them_at_their_deadline():
    """The default: the same call in a tier that does not serve late ends with an error."""

    async def scenario(rig):
        with pytest.raises(DeadlineExceededError):
            await rig.infer(tier=NORMAL, budget_ns=20 * MS)
        assert rig.clock.now_ns() == 20 * MS

    play(scenario, service_ns=50 * MS)
