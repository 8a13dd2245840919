"""KServe's own client against a server, in an environment of its own.

A program, `kserve_calls.py URL GRPC_ADDRESS`, started by `test_client_kserve.py`. Writes what it
saw as JSON. The server has a model that turns rows round for each datatype.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path

import grpc
import httpx
import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

sys.path.insert(0, str(Path(__file__).parent))
from samples_of_datatypes import SAMPLES, model_of, numpy_name

logging.disable(logging.CRITICAL)  # the client logs every refusal with its traceback


async def main(url, address):
    """Call everything; write what came to stdout."""
    rest = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    grpc_client = InferenceGRPCClient(address, retries=2)
    async with rest, grpc_client:
        seen = {
            "rest": {
                "live": await rest.is_server_live(url),
                "ready": await rest.is_server_ready(url),
                "model ready": await rest.is_model_ready(url, "flip_fp32"),
                "no such model ready": await rest.is_model_ready(url, "none"),
                "wrong": await wrong_answers(
                    lambda request: rest.infer(url, request, model_name=request.model_name),
                    (
                        ("json", False, False),
                        ("binary", True, True),
                        ("mixed", False, True),
                        ("mixed back", True, False),
                    ),
                ),
                "error": await rest_error(rest, url),
            },
            "grpc": {
                "live": await grpc_client.is_server_live(),
                "ready": await grpc_client.is_server_ready(),
                "model ready": await grpc_client.is_model_ready("flip_fp32"),
                "wrong": await wrong_answers(
                    grpc_client.infer, (("typed", False, None), ("raw", True, None))
                ),
                "error": await grpc_error(grpc_client),
            },
        }
    sys.stdout.write(json.dumps(seen))


def array_of(datatype):
    """The sample, as the client takes it."""
    rows = SAMPLES[datatype]
    if datatype == "BYTES":
        rows = [[text.encode() for text in row] for row in rows]
    return np.array(rows, dtype=numpy_name(datatype))


def request_of(datatype, is_binary_in, is_binary_out, *, model=None):
    """An infer request of one datatype."""
    array = array_of(datatype)
    one = InferInput("x", list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=is_binary_in)
    wanted = None
    if is_binary_out is not None:
        wanted = [RequestedOutput("y", {"binary_data": is_binary_out})]
    return InferRequest(
        model_name=model or model_of(datatype),
        infer_inputs=[one],
        request_id="mine",
        request_outputs=wanted,
        parameters={"priority": 1},
    )


async def wrong_answers(ask, forms):
    """Datatypes and forms whose answer was not the rows turned round, with what came."""
    wrong = {}
    for datatype in SAMPLES:
        for name, is_binary_in, is_binary_out in forms:
            if datatype == "FP16" and False in (is_binary_in, is_binary_out):
                continue  # the client writes and reads it in binary only
            try:
                response = await ask(request_of(datatype, is_binary_in, is_binary_out))
                found = response.outputs[0].as_numpy()
                is_right = response.id == "mine" and same(found, array_of(datatype)[:, ::-1])
                why = repr(found)
            except Exception as error:  # noqa: BLE001 (whatever it raises is what it saw)
                is_right, why = False, repr(error)
            if not is_right:
                wrong[f"{datatype} {name}"] = why[:300]
    return wrong


def same(found, wanted):
    """Alike in shape, datatype and values; text and bytes of it count as alike."""
    if wanted.dtype == object:
        texts = [v.encode() if isinstance(v, str) else v for v in found.ravel()]
        return found.shape == wanted.shape and texts == list(wanted.ravel())
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)


async def rest_error(client, url):
    """What the client makes of a model that there is not."""
    try:
        await client.infer(url, request_of("FP32", True, True, model="none"), model_name="none")
    except httpx.HTTPStatusError as error:
        return [error.response.status_code, error.response.json()["error"]]
    return None


async def grpc_error(client):
    """The same over gRPC."""
    try:
        await client.infer(request_of("FP32", True, None, model="none"))
    except grpc.aio.AioRpcError as error:
        return [error.code().name, error.details()]
    return None


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
