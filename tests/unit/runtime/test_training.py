"""Fits are made in a thread, one at a time, and handed over on the loop."""

import asyncio
from threading import Event, get_ident

from headway.runtime import Trainer

HOUR_S = 3600.0


class Fits:
    """Something to fit: says what is due, and keeps what was asked of it."""

    def __init__(self, due=None, hold=None, error=None):
        self.wanted = due
        self.hold = hold
        self.error = error
        self.trained = []
        self.threads = []
        self.installed = []
        self.failures = []

    def due(self):
        """What the test set, until that is installed."""
        return self.wanted if self.wanted not in self.installed else None

    def train(self, count):
        """Note it, wait if told to, fail if told to."""
        self.threads.append(get_ident())
        self.trained.append(count)
        if self.hold is not None:
            self.hold.wait(20)
        if self.error is not None:
            raise self.error

    def install(self, count):
        """Note it."""
        self.installed.append(count)

    def trainer(self, every_s=0.001):
        """That asks this."""
        return Trainer(self, self.install, every_s=every_s, failed=self.failures.append)


async def until(is_so):
    """Let the loop and its threads go on until something is so."""
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.to_thread(is_so)


def test_what_is_due_is_fitted_off_the_loop_and_installed():
    """The loop's thread trains nothing, and hears of every fit."""

    async def play():
        fits = Fits(due=200)
        trainer = fits.trainer()
        trainer.start()
        await until(lambda: fits.installed == [200])
        fits.wanted = 400
        await until(lambda: fits.installed == [200, 400])
        await trainer.stop()
        assert fits.trained == [200, 400]
        assert get_ident() not in fits.threads
        assert fits.failures == []

    asyncio.run(play())


def test_one_fit_at_a_time():
    """While one is being made, what falls due meanwhile waits for it."""

    async def play():
        hold = Event()
        fits = Fits(due=200, hold=hold)
        trainer = fits.trainer()
        trainer.start()
        await until(lambda: fits.trained == [200])
        fits.wanted, asked = 400, 0
        whole_due = fits.due

        def counting_due():
            nonlocal asked
            asked += 1
            return whole_due()

        fits.due = counting_due
        await until(lambda: asked > 3)
        assert (fits.trained, fits.installed) == ([200], [])
        hold.set()
        await until(lambda: fits.installed == [200, 400])
        await trainer.stop()

    asyncio.run(play())


def test_stop_waits_for_the_fit_and_installs_nothing_more():
    """A server that has ended is told nothing."""

    async def play():
        hold = Event()
        fits = Fits(due=200, hold=hold)
        trainer = fits.trainer()
        trainer.start()
        await until(lambda: fits.trained == [200])
        asyncio.get_running_loop().call_soon(hold.set)
        await trainer.stop()
        assert fits.installed == []

    asyncio.run(play())


def test_a_fit_that_fails_is_reported_once_and_the_next_is_tried():
    """The same observations would fail the same way; later ones may not."""

    async def play():
        fits = Fits(due=200, error=ValueError("no trees"))
        trainer = fits.trainer()
        trainer.start()
        await until(lambda: fits.failures)
        fits.error, fits.wanted = None, 400
        await until(lambda: fits.installed == [400])
        await trainer.stop()
        assert fits.trained == [200, 400]
        assert [str(error) for error in fits.failures] == ["no trees"]

    asyncio.run(play())


def test_trainer_that_never_started_or_has_nothing_to_do_ends_at_once():
    """No thread is waited for that never ran."""

    async def play():
        await Fits(due=200).trainer().stop()
        idle = Fits()
        trainer = idle.trainer(every_s=HOUR_S)
        trainer.start()
        await trainer.stop()
        assert idle.trained == []

    asyncio.run(play())
