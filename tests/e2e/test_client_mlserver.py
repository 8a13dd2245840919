"""The same requests to MLServer and to us, with the same models: the same answers.

Every datatype, JSON over REST, typed and raw over gRPC. What MLServer itself does not do is a
literal list here; we have to be right even there.
"""

import http.client
import json
import struct

import grpc
import numpy as np
import pytest
from tests.e2e.mlserver_rig import mlserver
from tests.e2e.samples_of_datatypes import SAMPLES, model_of, numpy_name
from tests.e2e.server import MODELS, a_config, serving

from headway.frontends.oip_messages import INFERENCE

TYPED = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
FORMS = ("json flat", "json nested", "typed", "raw")
CASES = [
    (datatype, form)
    for datatype in SAMPLES
    for form in FORMS
    if not (datatype == "FP16" and form == "typed")  # gRPC has no field for it
]
MLSERVER_CANNOT = {("BYTES", "json nested")}
"""It takes each row for one text."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Both, by name: (port, gRPC port)."""
    flips = [
        {
            "name": model_of(datatype),
            "path": f"{MODELS}/flip.py:Flip",
            "options": {"datatype": datatype},
        }
        for datatype in SAMPLES
    ]
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("mlserver")
    config = a_config(*flips, slots=2, server={"port": 0, "grpc": {"port": 0}})
    with mlserver(theirs) as other, serving(ours, config) as server:
        yield {
            "headway": (server.port, server.grpc_port),
            "mlserver": (other.port, other.grpc_port),
        }


def answer_in_json(port, datatype, *, is_nested):
    """What a server gives back in JSON: datatype, shape, flat elements."""
    rows = SAMPLES[datatype]
    data = rows if is_nested else [value for row in rows for value in row]
    tensor = {"name": "x", "shape": [2, 4], "datatype": datatype, "data": data}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            "POST",
            f"/v2/models/{model_of(datatype)}/infer",
            json.dumps({"id": "mine", "inputs": [tensor]}),
            {"content-type": "application/json"},
        )
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    assert response.status == 200, body
    answer = json.loads(body)
    assert answer["id"] == "mine"
    (output,) = answer["outputs"]
    return output["datatype"], output["shape"], flat(output["data"])


def flat(data):
    """Elements of a list, however nested."""
    return [e for each in data for e in flat(each)] if isinstance(data, list) else [data]


def answer_in_grpc(port, datatype, *, is_raw):
    """What a server gives back over gRPC: datatype, shape, flat elements."""
    elements = [value for row in SAMPLES[datatype] for value in row]
    if datatype == "BYTES":
        elements = [text.encode() for text in elements]
    request = INFERENCE["ModelInferRequest"](model_name=model_of(datatype), id="mine")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=[2, 4])
    if is_raw:
        request.raw_input_contents.append(packed(datatype, elements))
    else:
        getattr(tensor.contents, TYPED[datatype]).extend(elements)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.unary_unary(f"/{INFERENCE.service}/ModelInfer")
        answer = ask(request.SerializeToString(), timeout=20)
    response = INFERENCE["ModelInferResponse"].FromString(answer)
    assert response.id == "mine"
    (output,) = response.outputs
    if response.raw_output_contents:
        found = unpacked(datatype, response.raw_output_contents[0])
    else:
        found = list(getattr(output.contents, TYPED[datatype]))
    if datatype == "BYTES":
        found = [each.decode() for each in found]
    return output.datatype, list(output.shape), found


def packed(datatype, elements):
    """Elements as raw bytes."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(each)) + each for each in elements)
    return np.array(elements, numpy_name(datatype)).tobytes()


def unpacked(datatype, raw):
    """Raw bytes as elements."""
    if datatype != "BYTES":
        return np.frombuffer(raw, numpy_name(datatype)).tolist()
    found = []
    while raw:
        end = 4 + struct.unpack_from("<I", raw)[0]
        found.append(raw[4:end])
        raw = raw[end:]
    return found


def answer_of(ports, datatype, form):
    """What a server gives back."""
    port, grpc_port = ports
    if form in {"typed", "raw"}:
        return answer_in_grpc(grpc_port, datatype, is_raw=form == "raw")
    return answer_in_json(port, datatype, is_nested=form == "json nested")


def expected(datatype):
    """The rows turned round, as the datatype holds them."""
    elements = [value for row in SAMPLES[datatype] for value in row[::-1]]
    if datatype == "BYTES":
        return elements
    return np.array(elements, numpy_name(datatype)).tolist()


@pytest.mark.timeout(300)  # the first run makes MLServer's environment
@pytest.mark.parametrize(("datatype", "form"), CASES)
def test_same_request_same_answer(servers, datatype, form):
    """Datatype, shape and every element; ours are right by themselves, too."""
    ours = answer_of(servers["headway"], datatype, form)
    found = np.array(ours[2], numpy_name(datatype)).tolist() if datatype != "BYTES" else ours[2]
    assert (ours[0], list(ours[1]), found) == (datatype, [2, 4], expected(datatype))
    try:
        theirs = answer_of(servers["mlserver"], datatype, form)
    except (AssertionError, grpc.RpcError) as error:
        theirs = repr(error)
    if (datatype, form) in MLSERVER_CANNOT:
        assert theirs != ours
    else:
        assert theirs == ours
