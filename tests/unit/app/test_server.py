"""A wired server: what is left behind when it ends."""

import asyncio

import pytest
import yaml

from headway.app import Server, circumstances
from headway.app.recipe import learner_of
from headway.config import Config
from headway.errors import InternalError
from headway.profiling import read_learnt, write_learnt

TEXT = """
server: {port: 0}
devices: [{name: g, kind: emulated, accelerator: small}]
models:
  - name: m
    options: {solo: 2ms}
    inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]
    outputs: [{name: y, datatype: FP32, shape: [-1, 2]}]
"""


@pytest.mark.parametrize("has_crashed", [False, True])
def test_what_was_learnt_is_kept_unless_the_scheduler_crashed(tmp_path, has_crashed):
    """Whatever led to a crash is not what the next run begins with."""
    path = tmp_path / "learnt.json"
    config = Config.model_validate(yaml.safe_load(TEXT) | {"predictor": a_section(path)})
    before = {"of": "the last run"}
    write_learnt(path, learner_of(config), circumstances(config), before)

    async def play():
        server = Server.build(config)
        await server.start()
        if has_crashed:
            server.engine.crashed(InternalError("a bug"))
            assert server.engine.crash.exception() is not None
        await server.stop(0)

    asyncio.run(play())
    after = read_learnt(path, learner_of(config), circumstances(config)).state
    assert (after == before) is has_crashed


def a_section(path):
    """Of a predictor that keeps what it learns there."""
    return {"kind": "headway", "state": str(path)}
