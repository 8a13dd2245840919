"""An infer request's bytes as a call: JSON, binary and raw bodies, and all that may be wrong."""

import json
import struct
from collections.abc import Sequence

import pytest
from tests.fakes import a_status

from headway.core import Datatype, ModelName, Tensor, concat_bytes
from headway.errors import InvalidRequestError
from headway.executors import TensorSpec
from headway.frontends import ReplyForm, decode_infer, decode_raw_infer
from headway.frontends.oip_request import refuse_twins

MODEL = ModelName("m")
ONE = {"name": "x", "shape": [2], "datatype": "INT8", "data": [1, 2]}


def decode(request, binary=b"", headers=None, *, is_split=None):
    """Decode a request of this JSON object with this much binary data behind it."""
    text = request if isinstance(request, bytes) else json.dumps(request).encode()
    wanted = dict(headers or {})
    if binary or is_split:
        wanted[b"inference-header-content-length"] = str(len(text)).encode()
    return decode_infer(text + binary, model=MODEL, arrived_at_ns=7, headers=wanted)


def binary_input(name, size_bytes, shape=(2,), datatype="INT8"):
    parameters = {"binary_data_size": size_bytes}
    return {"name": name, "shape": list(shape), "datatype": datatype, "parameters": parameters}


def refusal(request, binary=b"", headers=None, *, is_split=None):
    with pytest.raises(InvalidRequestError) as caught:
        decode(request, binary, headers, is_split=is_split)
    return str(caught.value)


def test_json_request_becomes_a_call():
    """A JSON request has its tensors packed and everything else at its place."""
    decoded = decode({"id": "7", "inputs": [ONE], "outputs": [{"name": "y"}]})
    assert [Tensor("x", Datatype.INT8, (2,), b"\1\2")] == decoded.call.inputs
    assert (
        decoded.call.model,
        decoded.call.version,
        decoded.call.outputs,
        decoded.call.arrived_at_ns,
    ) == ("m", "", ("y",), 7)
    assert ReplyForm("7") == decoded.form


def test_without_a_word_everything_is_the_servers_choice():
    """Nothing said means no priority, no tier, no tenant and no budget of the client's own."""
    call = decode({"inputs": [ONE]}).call
    assert (
        call.priority,
        call.tier,
        call.tenant,
        call.budget_ns,
        call.parameters,
    ) == (None, None, None, None, {})


def test_binary_and_json_inputs_mix():
    """Binary data is shared out in the order of the binary inputs, JSON ones between them."""
    inputs = [binary_input("a", 2), ONE, binary_input("b", 9, (1,), "BYTES")]
    decoded = decode({"inputs": inputs}, b"\3\4" + concat_bytes([b"hello"]))
    assert [b"\3\4", b"\1\2", concat_bytes([b"hello"])] == [
        bytes(tensor.data) for tensor in decoded.call.inputs
    ]


def test_binary_inputs_are_not_copied():
    """Binary inputs are views of the body."""
    decoded = decode({"inputs": [binary_input("a", 2)]}, b"\3\4")
    assert isinstance(decoded.call.inputs[0].data, memoryview)


def test_an_empty_binary_input_is_an_input():
    """A tensor without elements has no bytes, and that is fine."""
    decoded = decode({"inputs": [binary_input("a", 0, (0, 3))]}, is_split=True)
    assert [Tensor("a", Datatype.INT8, (0, 3), b"")] == decoded.call.inputs


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"", b"+5", b"9" * 30, b"9999", b"0x10"])
def test_a_bad_header_length_is_refused(length):
    """The length of the JSON is a number within the body."""
    assert "Inference-Header-Content-Length" in refusal(
        {"inputs": [ONE]}, headers={b"inference-header-content-length": length}
    )


@pytest.mark.parametrize(
    ("sizes", "binary"), [([2, 2], b"\1\2\3"), ([2], b"\1\2\3"), ([2], b"\1"), ([-1], b"\1")]
)
def test_sizes_that_do_not_add_up_are_refused(sizes, binary):
    """All of the binary data belongs to an input, and no input wants more than there is."""
    inputs = [binary_input(str(at), size) for at, size in enumerate(sizes)]
    assert refusal({"inputs": inputs}, binary)


@pytest.mark.parametrize("size", [True, "2", 2.0, [2], 10**400])
def test_a_binary_size_that_is_no_size_is_refused(size):
    """`binary_data_size` is an integer."""
    assert "binary_data_size" in refusal({"inputs": [binary_input("a", size)]}, b"\1\2")


def test_data_twice_or_not_at_all_is_refused():
    """An input has its data in JSON or in binary, not both and not neither."""
    assert "both" in refusal({"inputs": [binary_input("a", 2) | {"data": [1, 2]}]}, b"\1\2")
    assert "neither" in refusal({"inputs": [{**ONE, "data": None}]})
    assert "neither" in refusal({"inputs": [{k: v for k, v in ONE.items() if k != "data"}]})


def test_twins_are_refused():
    """An input or output named twice is an error."""
    assert "input `x` is there more than once" in refusal({"inputs": [ONE, ONE]})
    outputs = [{"name": "y"}, {"name": "y"}]
    assert "output `y` is there more than once" in refusal({"inputs": [ONE], "outputs": outputs})


class Names(Sequence):
    """Names that count how often one of them is looked at."""

    def __init__(self, names):
        self.names = names
        self.looks = 0

    def __len__(self):
        return len(self.names)

    def __getitem__(self, at):
        found = self.names[at]
        self.looks += len(found) if isinstance(at, slice) else 1
        return found


def test_twins_among_many_are_found_in_one_pass():
    """A body of many names cannot hold the server up: each is looked at once."""
    names = Names([f"x{at}" for at in range(5000)] + ["x4999"])
    with pytest.raises(InvalidRequestError, match="`x4999`"):
        refuse_twins("input", names)
    assert names.looks <= len(names) + 1


def test_unknown_keys_are_ignored():
    """A key that the protocol does not have does no harm: some clients send `model_name`."""
    one = ONE | {"nonsense": {"deep": [1]}, "parameters": {"content_type": "np"}}
    assert decode({"model_name": "m", "inputs": [one], "extra": [{}]}).call.inputs


def test_nulls_mean_absent():
    """Clients that print every field print null for those that are not set."""
    one = {**ONE, "parameters": None}
    outputs = [{"name": "y", "parameters": None}]
    request = {"id": None, "parameters": None, "inputs": [one], "outputs": outputs}
    assert decode({"inputs": [ONE], "outputs": [{"name": "y"}]}) == decode(request)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"inputs":{}}',
        b'{"inputs":[{}]}',
        b'{"inputs":[1]}',
        b'{"inputs":[],"id":7}',
        b'{"inputs":[],"parameters":[]}',
        b'{"inputs":[],"x":"\xff"}',
        b'{"inputs":[],"id":"\\ud800"}',
        b'{"inputs":[]} {}',
        b'{"inputs":[],"x":' + b"[" * 100_000,
        b'{"inputs":' + b'[{"data":' * 20_000,
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP8","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[-1],"datatype":"INT8","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[1.0],"datatype":"INT8","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[99999999999],"datatype":"INT8","data":[]}]}',
        b'{"inputs":[{"name":"x","shape":[0,4611686018427387904],"datatype":"INT8","data":[]}]}',
        b'{"inputs":[{"name":"x","shape":1,"datatype":"INT8","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[NaN]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1e999]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["\xc3"]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT8","data":' + b"[" * 90_000,
    ],
)
def test_what_is_no_request_is_refused(text):
    """Broken JSON, wrong kinds, absurd shapes and bottomless nesting are errors, never crashes."""
    assert refusal(text)


def test_more_axes_than_anyone_has_are_refused():
    """The number of axes is bounded."""
    nested = 1
    for _ in range(33):
        nested = [nested]
    assert refusal({"inputs": [ONE | {"shape": [1] * 33, "data": nested}]})


@pytest.mark.parametrize(
    ("value", "priority"), [(1, 1), ("1", 1), (0, None), ("0", None), (None, None), (250, 250)]
)
def test_priority_is_an_integer_or_its_digits(value, priority):
    """Triton's numbers are ours; 0 leaves it to the model."""
    assert priority == decode({"inputs": [ONE], "parameters": {"priority": value}}).call.priority


@pytest.mark.parametrize("value", [-1, "-1", 1.5, True, "high", "", [1], 2**31, 10**400, "9" * 19])
def test_a_priority_that_is_none_is_refused(value):
    """A priority is a small non-negative integer."""
    assert "`priority`" in refusal({"inputs": [ONE], "parameters": {"priority": value}})


def test_the_header_decides_the_priority():
    """A gateway can set the priority without touching the body."""
    request = {"inputs": [ONE], "parameters": {"priority": 5}}
    assert decode(request, headers={b"headway-priority": b"2"}).call.priority == 2
    assert decode(request, headers={b"headway-priority": b"0"}).call.priority == 5
    assert "`headway-priority`" in refusal(request, headers={b"headway-priority": b"first"})


@pytest.mark.parametrize(
    ("timeout", "header", "budget"),
    [
        (None, None, (None, "request")),
        (0, None, (None, "request")),
        (50_000, None, (50_000_000, "timeout")),
        ("50000", None, (50_000_000, "timeout")),
        (None, b"50", (50_000_000, "headway-budget-ms")),
        (None, b"0.5", (500_000, "headway-budget-ms")),
        (None, b"0", (0, "headway-budget-ms")),
        (20_000, b"50", (20_000_000, "timeout")),
        (60_000, b"50", (50_000_000, "headway-budget-ms")),
        (0, b"50", (50_000_000, "headway-budget-ms")),
        (2**64 - 1, None, (10**16, "timeout")),
        (None, b"1e300", (10**16, "headway-budget-ms")),
    ],
)
def test_the_smallest_budget_holds_and_is_named(timeout, header, budget):
    """Of several budgets the smallest holds, and the call says which one it is."""
    headers = {} if header is None else {b"headway-budget-ms": header}
    call = decode({"inputs": [ONE], "parameters": {"timeout": timeout}}, headers=headers).call
    assert budget == (call.budget_ns, call.budget_source)


@pytest.mark.parametrize("value", [-1, 1.5, "soon", True, 10**20])
def test_a_timeout_that_is_none_is_refused(value):
    """A timeout is a whole number of microseconds."""
    assert "`timeout`" in refusal({"inputs": [ONE], "parameters": {"timeout": value}})


@pytest.mark.parametrize("value", [b"-1", b"soon", b"nan", b"inf", b"", b"1_0ms"])
def test_a_budget_that_is_none_is_refused(value):
    """A budget is a finite number of milliseconds."""
    assert "headway-budget-ms" in refusal({"inputs": [ONE]}, headers={b"headway-budget-ms": value})


def test_tenant_and_tier_come_from_headers():
    """Whoever is accounted for, and how, is said in headers."""
    headers = {b"headway-tenant": b" acme ", b"headway-tier": b"gold"}
    call = decode({"inputs": [ONE]}, headers=headers).call
    assert (call.tenant, call.tier) == ("acme", "gold")


def test_reserved_parameters_end_here_and_others_go_on():
    """The model sees its own parameters only."""
    parameters = {
        "priority": 1,
        "timeout": 1,
        "binary_data_output": True,
        "sequence_id": 3,
        "sequence_start": True,
        "sequence_end": False,
        "headers": {"a": "b"},
        "triton_enable_empty_final_response": True,
        "absent": None,
        "temperature": 0.5,
        "mode": "fast",
        "top_k": 3,
        "echo": True,
    }
    call = decode({"inputs": [ONE], "parameters": parameters}).call
    assert call.parameters == {"temperature": 0.5, "mode": "fast", "top_k": 3, "echo": True}


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_a_parameter_that_is_no_scalar_is_refused(value):
    """The protocol's parameters are strings, numbers and booleans."""
    assert "`p`" in refusal({"inputs": [ONE], "parameters": {"p": value}})


def test_outputs_say_their_form():
    """An output's own word about binary wins over the request's."""
    outputs = [{"name": "a", "parameters": {"binary_data": False}}, {"name": "b"}]
    form = decode(
        {"inputs": [ONE], "outputs": outputs, "parameters": {"binary_data_output": True}}
    ).form
    assert ReplyForm(None, True, {"a": False}) == form


def test_a_flag_that_is_none_is_refused():
    """Flags are true or false."""
    assert refusal({"inputs": [ONE], "parameters": {"binary_data_output": 1}})
    output = {"name": "a", "parameters": {"binary_data": "yes"}}
    assert refusal({"inputs": [ONE], "outputs": [output]})


@pytest.mark.parametrize(
    "parameters",
    [{"classification": 3}, {"shared_memory_region": 7, "shared_memory_byte_size": 2}],
)
def test_output_that_cannot_be_had_so_is_refused(parameters):
    """What would change the answer and is not done is said, not passed over."""
    output = {"name": "y", "parameters": parameters}
    assert "output `y`" in refusal({"inputs": [ONE], "outputs": [output]})


def test_inputs_in_shared_memory_that_is_not_registered_are_refused():
    """With the name of the region."""
    one = ONE | {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 2}}
    assert "shared memory" in refusal({"inputs": [one]})


def raw(body, spec, **status):
    status = a_status("m", inputs=[spec], **status)
    return decode_raw_infer(body, status=status, arrived_at_ns=7, headers={})


def test_a_raw_request_is_one_row():
    """A body without JSON is one row of the model's only input, and all outputs are binary."""
    spec = TensorSpec(name="x", datatype=Datatype.FP32, shape=(-1, 2))
    decoded = raw(struct.pack("<2f", 1, 2), spec)
    assert [Tensor("x", Datatype.FP32, (1, 2), struct.pack("<2f", 1, 2))] == decoded.call.inputs
    assert ReplyForm(None, True) == decoded.form


def test_a_raw_request_sizes_the_free_axis():
    """One axis besides the batch may be free: the bytes say how long it is."""
    spec = TensorSpec(name="x", datatype=Datatype.INT16, shape=(-1, -1, 2))
    assert raw(bytes(12), spec).call.inputs[0].shape == (1, 3, 2)
    whole = TensorSpec(name="x", datatype=Datatype.INT16, shape=(-1,))
    assert raw(bytes(12), whole, can_batch=False).call.inputs[0].shape == (6,)


def test_a_raw_string_gets_its_length():
    """A raw body of BYTES is one element."""
    spec = TensorSpec(name="x", datatype=Datatype.BYTES, shape=(-1, 1))
    assert [Tensor("x", Datatype.BYTES, (1, 1), concat_bytes([b"hey"]))] == raw(
        b"hey", spec
    ).call.inputs


@pytest.mark.parametrize(
    ("datatype", "shape"),
    [
        (Datatype.FP32, (-1, 2)),
        (Datatype.FP32, (-1, -1, -1)),
        (Datatype.FP32, (-1, -1)),
        (Datatype.BYTES, (-1, 2)),
        (Datatype.FP32, (-1, -1, 0)),
    ],
)
def test_a_raw_request_that_fits_nothing_is_refused(datatype, shape):
    """Bytes that do not fill the input, or could in several ways, are refused."""
    with pytest.raises(InvalidRequestError, match="`x`"):
        raw(bytes(5), TensorSpec(name="x", datatype=datatype, shape=shape))


def test_a_raw_request_needs_a_model_of_one_input():
    """With several inputs nobody knows whose the bytes are."""
    spec = TensorSpec(name="x", datatype=Datatype.FP32, shape=(1,))
    status = a_status("m", inputs=[spec, spec])
    with pytest.raises(InvalidRequestError, match="2 inputs"):
        decode_raw_infer(b"", status=status, arrived_at_ns=7, headers={})
