"""A generator's process, where something goes wrong that no request is to blame for, or one is."""

import asyncio
import os
import resource
from pathlib import Path

import pytest
from tests.decoder_rig import PLAIN, tiny_folder

from headway.core import ModelName
from headway.decoder import (
    DecoderLimits,
    Generate,
    Generator,
    GeneratorParams,
    Prompt,
    Start,
    Wishes,
)
from headway.errors import InvalidRequestError, LoadError
from headway.generate import StepSettings
from headway.units import NS_PER_MS, NS_PER_S


def a_generator():
    start = Start(
        folder=str(tiny_folder()),
        limits=DecoderLimits(context=64),
        settings=StepSettings(),
        seed="s",
    )
    params = GeneratorParams(
        name=ModelName("tiny"),
        start=start,
        restart_delay_ns_min=20 * NS_PER_MS,
        restart_delay_ns_max=100 * NS_PER_MS,
        step_ns_max=30 * NS_PER_S,
        load_ns_max=30 * NS_PER_S,
    )
    return Generator(params)


def an_order(**wishes):
    return Generate(
        request_id=0,
        prompts=[Prompt(text="x")],
        choices=1,
        tokens_max=2,
        answer_tokens_max=9,
        wishes=Wishes(**wishes),
        tag="t",
        terms=PLAIN,
        age_ns=0,
    )


class Ends:
    def __init__(self):
        self.errors = []

    def begun(self, begun):
        pass

    def said(self, said):
        pass

    def ended(self, error):
        self.errors.append(error)


class NoFiles:
    """While it holds, this process can open nothing more."""

    def __enter__(self):
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(
            resource.RLIMIT_NOFILE,
            (max(int(each.name) for each in Path("/proc/self/fd").iterdir()), self._limits[1]),
        )
        self._held = []
        try:
            while True:
                self._held.append(os.dup(0))
        except OSError:
            return self

    def __exit__(self, *_):
        for fd in self._held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


def test_worker_that_cannot_be_started_is_said_and_stops():
    """The start fails, and whoever stops it then does not wait for a process that never was."""

    async def play():
        generator = a_generator()
        with NoFiles(), pytest.raises(LoadError, match="cannot be started"):
            await generator.start()
        assert await generator.stop(0) == 0

    asyncio.run(play())


def test_worker_that_cannot_be_started_again_is_tried_later():
    """When files can be opened once more, it comes back."""

    async def play():
        generator = a_generator()
        await generator.start()
        with NoFiles():
            os.kill(generator.pid, 9)
            while generator.starts < 3:  # noqa: ASYNC110 (no event is told)
                await asyncio.sleep(0)
        while generator.ready is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert await generator.stop(0) == 0

    asyncio.run(play())


def test_order_that_cannot_be_told_leaves_nothing_behind():
    """It is refused, and the generator knows of no request that nobody will ever answer."""

    async def play():
        generator, ends = a_generator(), Ends()
        await generator.start()
        with pytest.raises(InvalidRequestError, match="cannot be passed on"):
            generator.open(an_order(seed=1 << 70), NS_PER_S, "a limit", ends)
        assert generator.open_count == 0
        assert await generator.stop(10 * NS_PER_S) == 0

    asyncio.run(play())


def test_package_that_is_not_installed_is_named_with_how_to_install_it(tmp_path, monkeypatch):
    """As the reason why the model cannot be loaded, without the worker's trace."""
    (tmp_path / "onnxruntime.py").write_text("raise ModuleNotFoundError('none')")
    monkeypatch.syspath_prepend(tmp_path)

    async def play():
        generator = a_generator()
        with pytest.raises(LoadError, match=r"headway\[generate\]") as caught:
            await generator.start()
        assert "Traceback" not in str(caught.value)
        assert await generator.stop(0) == 0

    asyncio.run(play())
