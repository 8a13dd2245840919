"""What tests of headway, and of what is built on it, are made of; ships to users.

Knows virtual time, scripted executors, a predictor without foresight, and builders that state only
what matters. Never runs in production, and never imports pytest.
"""

from headway.testing.builders import (
    Dialogue,
    a_device,
    a_dispatch,
    a_kernel,
    a_model,
    a_request,
    dispatched,
    without_timers,
)
from headway.testing.mean_predictor import MeanPredictor
from headway.testing.scripted import ECHO_SIGNATURE, ScriptedError, ScriptedExecutor
from headway.testing.virtual_loop import DeadlockError, VirtualLoop, run_virtual

__all__ = [
    "ECHO_SIGNATURE",
    "DeadlockError",
    "Dialogue",
    "MeanPredictor",
    "ScriptedError",
    "ScriptedExecutor",
    "VirtualLoop",
    "a_device",
    "a_dispatch",
    "a_kernel",
    "a_model",
    "a_request",
    "dispatched",
    "run_virtual",
    "without_timers",
]
