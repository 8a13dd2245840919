"""Models and answers that tests share."""

import os

import pytest

# Read when torch and vLLM are imported, so before all tests.
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # engine and scheduler within reach
    "VLLM_LOGGING_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A folder with a tiny Llama."""
    from vllm_rig import tiny_llama

    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def engines(model):
    """Makes engines, one at a time, and closes the last."""
    from vllm_rig import Engine

    opened = []

    def make(*args, **more):
        while opened:
            opened.pop().close()
        opened.append(Engine(model, *args, **more))
        return opened[-1]

    yield make
    while opened:
        opened.pop().close()


@pytest.fixture(scope="session")
def answers(model):
    """What the model says to a call when nothing else is in the engine; vLLM's own scheduler."""
    from vllm_rig import Engine

    known = {}

    def of(calls):
        missing = [call for call in calls if (tuple(call.prompt), call.tokens) not in known]
        if missing:
            engine = Engine(model, None)
            engine.play([call._replace(priority=0, args=None, at_step=0) for call in missing])
            for call in missing:
                known[tuple(call.prompt), call.tokens] = engine.tokens[call.name]
            engine.close()
        return {call.name: known[tuple(call.prompt), call.tokens] for call in calls}

    return of
