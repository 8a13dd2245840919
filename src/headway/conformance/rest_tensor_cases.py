"""What clients rely on over HTTP: tensors, as JSON and as the binary extension has them."""

import json
import struct
from typing import Any

from headway.conformance.case import expect
from headway.conformance.http_wire import HttpTarget, Reply
from headway.conformance.rest_cases import (
    CASES,
    MODEL,
    VALUES,
    echo_request,
    is_echoed,
    output_of,
    refused,
)
from headway.conformance.tensors import JSON_KINDS, KINDS, Kind, model_of, packed_texts

__all__: list[str] = []

PACKED = struct.pack("<4f", *VALUES)


# --- JSON -----------------------------------------------------------------------------------------


@CASES("json", "data may be flat")
def flat(to: HttpTarget) -> None:
    """In row-major order."""
    is_echoed(to.infer(to.needs(MODEL), echo_request()))


@CASES("json", "data may be nested")
def nested(to: HttpTarget) -> None:
    """As the shape says."""
    request = echo_request()
    request["inputs"][0]["data"] = [VALUES]
    output = output_of(to.infer(to.needs(MODEL), request))
    expect(output["data"] in (VALUES, [VALUES]), f"{VALUES}", output)


@CASES("json", "an id is given back")
def identified(to: HttpTarget) -> None:
    """By which clients find their request."""
    body = to.infer(to.needs(MODEL), echo_request(id="my-7")).json()
    expect(body.get("id") == "my-7", "the id my-7", body.get("id"))


@CASES("json", "an answer names model, datatype and shape")
def described(to: HttpTarget) -> None:
    """Without which its data mean nothing."""
    reply = to.infer(to.needs(MODEL), echo_request())
    output = output_of(reply)
    expect(reply.json().get("model_name") == MODEL, f"the model {MODEL}", reply.json())
    expect(output.get("name") == "y", "the output y", output)
    expect(output.get("datatype") == "FP32", "FP32", output)
    expect([int(size) for size in output["shape"]] == [1, 4], "[1, 4]", output)


@CASES("json", "an output may be asked for by name")
def named(to: HttpTarget) -> None:
    """And is the only one."""
    is_echoed(to.infer(to.needs(MODEL), echo_request(outputs=[{"name": "y"}])))


@CASES("json", "without outputs all are given")
def all_outputs(to: HttpTarget) -> None:
    """Of a model with two."""
    body = to.infer(to.needs("pair"), pair_request()).json()
    expect(sorted(each["name"] for each in body["outputs"]) == ["w", "y"], "w and y", body)


@CASES("json", "one output of two is given alone")
def one_of_two(to: HttpTarget) -> None:
    """The one that was asked for."""
    body = to.infer(to.needs("pair"), pair_request(outputs=[{"name": "w"}])).json()
    (output,) = body["outputs"]
    expect(output["name"] == "w" and output["data"] == [7, 8], "w of 7, 8", output)


@CASES("json", "inputs may come in any order")
def any_order(to: HttpTarget) -> None:
    """They have names."""
    request = pair_request()
    request["inputs"].reverse()
    outputs = {each["name"]: each for each in to.infer(to.needs("pair"), request).json()["outputs"]}
    expect(outputs["w"]["data"] == [7, 8], "w of 7, 8", outputs)


@CASES("json", "unknown keys are ignored")
def unknown_keys(to: HttpTarget) -> None:
    """KServe's client puts model_name there."""
    request = echo_request(model_name=MODEL, other={"a": [1]})
    request["inputs"][0]["more"] = 1
    is_echoed(to.infer(to.needs(MODEL), request))


@CASES("json", "unknown parameters do no harm")
def unknown_parameters(to: HttpTarget) -> None:
    """A string, a number and a boolean."""
    request = echo_request(parameters={"mine": "a", "n": 1, "flag": True})
    is_echoed(to.infer(to.needs(MODEL), request))


@CASES("json", "several rows come back in order")
def rows(to: HttpTarget) -> None:
    """As one batch."""
    data = [float(value) for value in range(12)]
    request = echo_request()
    request["inputs"][0] |= {"shape": [3, 4], "data": data}
    output = output_of(to.infer(to.needs(MODEL), request))
    found = output["data"]
    if found and isinstance(found[0], list):
        found = [value for row in found for value in row]
    expect(found == data, f"{data}", output)


def _json_case(kind: Kind) -> None:
    @CASES("json", f"{kind.datatype} survives")
    def check(to: HttpTarget) -> None:
        data = list(kind.values)
        tensor = {"name": "x", "shape": [1, 4], "datatype": kind.datatype, "data": data}
        output = output_of(to.infer(to.needs(model_of(kind.datatype)), {"inputs": [tensor]}))
        expect(output.get("datatype") == kind.datatype, kind.datatype, output)
        expect(output.get("data") == data, f"{data}", output)


for _kind in JSON_KINDS:
    _json_case(_kind)


# --- binary ---------------------------------------------------------------------------------------


def binary_request(size: int = len(PACKED), **changes: object) -> dict[str, Any]:
    """Four floats that follow the JSON."""
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32"}
    return {"inputs": [{**tensor, "parameters": {"binary_data_size": size}}], **changes}


def pair_request(**changes: object) -> dict[str, Any]:
    """Two inputs of two datatypes."""
    inputs = [
        {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2.5]},
        {"name": "z", "shape": [1, 2], "datatype": "INT64", "data": [7, 8]},
    ]
    return {"inputs": inputs, **changes}


def binary_of(reply: Reply) -> tuple[Any, bytes]:
    """The JSON of an answer that went well, and its binary data."""
    expect(reply.status == 200, "200", f"{reply.status} {reply.body[:200]!r}")
    return reply.parts()


@CASES("binary", "the extension is announced")
def announced(to: HttpTarget) -> None:
    """As binary_tensor_data, which clients look for."""
    extensions = to.get("/v2").json().get("extensions") or []
    expect("binary_tensor_data" in extensions, "binary_tensor_data", extensions)


@CASES("binary", "binary in, JSON out")
def binary_in(to: HttpTarget) -> None:
    """The default of an answer is JSON."""
    to.extends("binary_tensor_data")
    is_echoed(to.infer(to.needs(MODEL), binary_request(), PACKED))


@CASES("binary", "binary in, binary out")
def both_binary(to: HttpTarget) -> None:
    """Asked for the whole request."""
    to.extends("binary_tensor_data")
    request = binary_request(parameters={"binary_data_output": True})
    head, data = binary_of(to.infer(to.needs(MODEL), request, PACKED))
    (output,) = head["outputs"]
    size = output["parameters"]["binary_data_size"]
    expect(size == len(PACKED) and data == PACKED, f"{PACKED!r}", (size, data))
    expect("data" not in output, "no data in the JSON", output)


@CASES("binary", "JSON in, binary out of one output")
def binary_out(to: HttpTarget) -> None:
    """Asked for by the output."""
    to.extends("binary_tensor_data")
    wanted = [{"name": "y", "parameters": {"binary_data": True}}]
    _, data = binary_of(to.infer(to.needs(MODEL), echo_request(outputs=wanted)))
    expect(data == PACKED, f"{PACKED!r}", data)


@CASES("binary", "an output's own wish wins")
def own_wish(to: HttpTarget) -> None:
    """Over the request's."""
    to.extends("binary_tensor_data")
    outputs = [{"name": "y", "parameters": {"binary_data": False}}]
    request = echo_request(outputs=outputs, parameters={"binary_data_output": True})
    is_echoed(to.infer(to.needs(MODEL), request))


@CASES("binary", "JSON and binary inputs may be mixed")
def mixed(to: HttpTarget) -> None:
    """In one request."""
    to.extends("binary_tensor_data")
    request = pair_request()
    packed = struct.pack("<2q", 7, 8)
    del request["inputs"][1]["data"]
    request["inputs"][1]["parameters"] = {"binary_data_size": len(packed)}
    body = to.infer(to.needs("pair"), request, packed).json()
    outputs = {each["name"]: each["data"] for each in body["outputs"]}
    expect(outputs == {"y": [1.5, 2.5], "w": [7, 8]}, "both", outputs)


@CASES("binary", "several binary inputs and outputs keep their order")
def in_order(to: HttpTarget) -> None:
    """Data follow in the order of the JSON."""
    to.extends("binary_tensor_data")
    parts = (struct.pack("<2f", 1.5, 2.5), struct.pack("<2q", 7, 8))
    request = pair_request(parameters={"binary_data_output": True})
    for tensor, part in zip(request["inputs"], parts, strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": len(part)}
    head, data = binary_of(to.infer(to.needs("pair"), request, b"".join(parts)))
    found, start = {}, 0
    for output in head["outputs"]:
        size = output["parameters"]["binary_data_size"]
        found[output["name"]] = data[start : start + size]
        start += size
    expect(found == {"y": parts[0], "w": parts[1]}, "both", found)


@CASES("binary", "NaN and infinity survive")
def not_numbers(to: HttpTarget) -> None:
    """Bit by bit."""
    to.extends("binary_tensor_data")
    packed = struct.pack("<4f", float("nan"), float("inf"), float("-inf"), -0.0)
    request = binary_request(parameters={"binary_data_output": True})
    _, data = binary_of(to.infer(to.needs(MODEL), request, packed))
    expect(data == packed, f"{packed!r}", data)


@CASES("binary", "BYTES may be any bytes")
def any_bytes(to: HttpTarget) -> None:
    """Empty ones, zeros, and what is no text."""
    to.extends("binary_tensor_data")
    model = to.needs(model_of("BYTES"))
    packed = packed_texts([b"", b"\0", b"\xff\xfe", b"a" * 300])
    tensor = {"name": "x", "shape": [1, 4], "datatype": "BYTES"}
    request = {
        "inputs": [{**tensor, "parameters": {"binary_data_size": len(packed)}}],
        "parameters": {"binary_data_output": True},
    }
    _, data = binary_of(to.infer(model, request, packed))
    expect(data == packed, f"{packed!r}", data)


@CASES("binary", "a raw request is one tensor and nothing else")
def raw(to: HttpTarget) -> None:
    """The JSON's length is 0, and all is binary."""
    to.extends("binary_tensor_data")
    headers = {"Inference-Header-Content-Length": "0"}
    reply = to.ask("POST", f"/v2/models/{to.needs(MODEL)}/infer", PACKED, headers)
    _, data = binary_of(reply)
    expect(data == PACKED, f"{PACKED!r}", data)


def _binary_case(kind: Kind) -> None:
    @CASES("binary", f"{kind.datatype} survives")
    def check(to: HttpTarget) -> None:
        to.extends("binary_tensor_data")
        tensor = {"name": "x", "shape": [1, 4], "datatype": kind.datatype}
        request = {
            "inputs": [{**tensor, "parameters": {"binary_data_size": len(kind.packed)}}],
            "parameters": {"binary_data_output": True},
        }
        reply = to.infer(to.needs(model_of(kind.datatype)), request, kind.packed)
        _, data = binary_of(reply)
        expect(data == kind.packed, f"{kind.packed!r}", data)


for _kind in KINDS.values():
    _binary_case(_kind)


def _wrong(name: str, request: dict[str, Any], data: bytes, length: str | None = None) -> None:
    @CASES("binary", f"{name} is a client's error, with a text")
    def check(to: HttpTarget) -> None:
        to.extends("binary_tensor_data")
        text = json.dumps(request).encode()
        headers = {"Inference-Header-Content-Length": length or str(len(text))}
        path = f"/v2/models/{to.needs(MODEL)}/infer"
        refused(to.ask("POST", path, text + data, headers))


_wrong("binary data that is too short", binary_request(), PACKED[:-1])
_wrong("binary data that is too long", binary_request(), PACKED + b"\0")
_wrong("a size that does not fit the shape", binary_request(12), PACKED[:12])
_wrong("a negative size", binary_request(-16), PACKED)
_wrong("a length of JSON beyond the body", binary_request(), PACKED, "99999")
_wrong("a length of JSON that is negative", binary_request(), PACKED, "-1")
_wrong("a length of JSON that is no number", binary_request(), PACKED, "ten")
