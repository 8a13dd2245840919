"""A client for those who want no other: numpy in, numpy out, a budget, and retries that obey.

Knows the Open Inference Protocol over HTTP and what headway says beside it; sole home of httpx.
What is sent, what an answer means and whether to try again are pure functions; the two clients only
carry it out, one for plain code and one for asyncio. Must never import the server's objects.
"""

from headway.client.answers import Estimate, ModelMetadata, ModelState, Reply, TensorMetadata
from headway.client.async_client import AsyncClient, AsyncClock
from headway.client.patience import Retries
from headway.client.questions import Bf16, Inputs, ParameterValue
from headway.client.sync_client import Client, Clock
from headway.client.terms import Duration

__all__ = [
    "AsyncClient",
    "AsyncClock",
    "Bf16",
    "Client",
    "Clock",
    "Duration",
    "Estimate",
    "Inputs",
    "ModelMetadata",
    "ModelState",
    "ParameterValue",
    "Reply",
    "Retries",
    "TensorMetadata",
]
