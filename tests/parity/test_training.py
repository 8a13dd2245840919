"""A live run whose predictor is fitted in the background replays step by step."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.engine_rig import CPU, Rig, a_plan, chance

from headway.app import journal_header, kernel_of, policy_from_section
from headway.core import DeviceParams, Dispatch, KernelParams, PredictorTrained
from headway.observe import JournalObserver, read_journal, replay
from headway.policy import fifo
from headway.predict import Recipe, build
from headway.runtime import Trainer
from headway.testing import run_virtual
from headway.units import NS_PER_MS

DEVICE = DeviceParams(name=CPU, slot_lanes=(0, 1))
PARAMS = KernelParams(devices=(DEVICE,))
RECIPE = Recipe(kind="boosted", trains_inline=False, looks_per_s=1_000_000)
CALLS = 1_500


class AtOnce(ThreadPoolExecutor):
    """A thread pool without threads: virtual time does not wait for any."""

    def submit(self, fn, /, *args, **kwargs):
        """Run it here and now."""
        done = Future()
        done.set_result(fn(*args, **kwargs))
        return done


async def _live(path):
    built = build(RECIPE, [DEVICE])
    header = journal_header(PARAMS, policy_from_section({"kind": "fifo"}), RECIPE)
    journal = JournalObserver(path, header)
    taken = chance(1, "service")

    def service_ns(job):
        # Batches of two take longer than any line through the others' times would have it.
        rows = sum(job.member_rows)
        return round((8 if rows == 2 else 3) * NS_PER_MS * taken.uniform(0.9, 1.1))

    rig = Rig(
        [a_plan(batch_rows_max=2), a_plan("other", batch_rows_max=1)],
        policy=lambda _: fifo(built.predictor),
        devices=[DEVICE],
        service_ns=service_ns,
        observers=[journal],
    )
    asyncio.get_running_loop().set_default_executor(AtOnce(1))
    await rig.load_all()
    failures = []
    trainer = Trainer(built.trainable, rig.engine.install, every_s=0.1, failed=failures.append)
    trainer.start()
    draw = chance(1, "arrivals")
    calls = []
    for number in range(CALLS):
        await rig.until_ms((number + 1) * 3 + 2 * draw.random())
        calls.append(rig.infer(model=draw.choice(("echo", "other"))))
    await asyncio.gather(*calls, return_exceptions=True)
    await trainer.stop()
    journal.close()
    rig.close()
    assert failures == []


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Of a live run long enough for several fits."""
    path = tmp_path_factory.mktemp("run") / "run.journal"
    run_virtual(_live(path))
    return path


def _read(path):
    header, records = read_journal(path)
    with closing(records):
        return header, list(records)


def test_fits_are_installed_at_the_same_step(journal):
    """The journal's fits, made again where it says, foresee the same to the nanosecond."""
    header, records = _read(journal)
    fits = [r.event.count for r in records if isinstance(r.event, PredictorTrained)]
    assert len(fits) >= 3
    assert fits == sorted(set(fits))
    assert replay(kernel_of(header), records) == (len(records), None)


def test_fits_matter(journal):
    """Without them the replay foresees something else: else the test above would prove nothing."""
    header, records = _read(journal)
    kept = [r for r in records if not isinstance(r.event, PredictorTrained)]
    count, divergence = replay(kernel_of(header), kept)
    assert divergence is not None
    assert count > 200
    assert any(isinstance(command, Dispatch) for command in divergence.replayed)
