"""What a client says besides its tensors: how urgent, how long, who, and to whom it belongs.

| what     | where                               | meaning                              |
| -------- | ----------------------------------- | ------------------------------------ |
| priority | parameter `priority`; a header      | lower is served first, 1 before all; |
|          | `headway-priority` wins over it     | 0 leaves it to the model             |
| budget   | parameter `timeout`, microseconds;  | the smaller holds; `timeout` 0 means |
|          | header `headway-budget-ms`          | none, a header of 0 already spent    |
| tenant   | header `headway-tenant`             | whoever is accounted for             |
| tier     | header `headway-tier`               | the service class                    |
| key      | header `authorization: Bearer KEY`, | who the client is, where the server  |
|          | or `headway-key: KEY`               | keeps tenants                        |
| trace    | header `traceparent`                | W3C trace context, passed on         |

Reserved parameters (`priority`, `timeout`, `binary_data_output`, `headers`, `sequence_*`,
`triton_*`, `headway_*`) end here; all others go to the model, if it takes any.

Every protocol says it with these parameters and headers, in gRPC as metadata. Pure: values in, an
`InferCall` or an `InvalidRequestError` out.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from headway.core import ModelName, TenantId, Tensor, TierName
from headway.errors import InvalidRequestError
from headway.executors import ParameterValue
from headway.runtime import InferCall, Secret
from headway.units import NS_PER_MS, NS_PER_S, NS_PER_US

__all__ = [
    "HEADER_LENGTH",
    "HEADER_NAMES",
    "PRIORITY_MAX",
    "call_of",
    "credential_of",
    "shown",
]

HEADER_LENGTH: Final = b"inference-header-content-length"
HEADER_PRIORITY: Final = b"headway-priority"
HEADER_BUDGET: Final = b"headway-budget-ms"
HEADER_TENANT: Final = b"headway-tenant"
HEADER_TIER: Final = b"headway-tier"
HEADER_AUTHORIZATION: Final = b"authorization"
HEADER_KEY: Final = b"headway-key"
HEADER_TRACE: Final = b"traceparent"
HEADER_NAMES: Final = frozenset(
    {
        HEADER_LENGTH,
        HEADER_PRIORITY,
        HEADER_BUDGET,
        HEADER_TENANT,
        HEADER_TIER,
        HEADER_AUTHORIZATION,
        HEADER_KEY,
        HEADER_TRACE,
    }
)
"""Lower-case names of the request headers that a call is made of."""

PRIORITY_MAX: Final = 2**31 - 1
BUDGET_NS_MAX: Final = 10_000_000 * NS_PER_S
"""Four months: a longer budget says no more than none, and is cut to this."""

_RESERVED: Final = frozenset(
    "binary_data_output headers priority sequence_end sequence_id sequence_start timeout".split()
)
_RESERVED_PREFIXES: Final = ("triton_", "headway_")
_NO_KEY: Final = Secret()


def call_of(
    model: ModelName,
    version: str,
    inputs: Sequence[Tensor],
    outputs: tuple[str, ...],
    arrived_at_ns: int,
    parameters: Mapping[str, Any],
    headers: Mapping[bytes, bytes],
) -> InferCall:
    """A call of these tensors, with what parameters and headers say of it.

    Raises:
        InvalidRequestError: a parameter or a header is not what it should be.
    """
    priority, budget_ns, budget_source = None, None, "request"
    tier = tenant = None
    credential, traceparent = _NO_KEY, ""
    passed: Mapping[str, ParameterValue] = {}
    if parameters:
        priority = _priority(parameters.get("priority"), "parameter `priority`")
        budget_ns, budget_source = _timeout_ns(parameters.get("timeout")), "timeout"
        passed = _passed_on(parameters)
    if headers:
        header_budget_ns = _header_budget_ns(headers.get(HEADER_BUDGET))
        if header_budget_ns is not None and (budget_ns is None or header_budget_ns < budget_ns):
            budget_ns, budget_source = header_budget_ns, "headway-budget-ms"
        header_priority = headers.get(HEADER_PRIORITY)
        if header_priority is not None:
            text = header_priority.decode("latin-1")
            priority = _priority(text, "header `headway-priority`") or priority
        tier = _named(headers, HEADER_TIER)
        tenant = _named(headers, HEADER_TENANT)
        credential = credential_of(headers)
        traceparent = _named(headers, HEADER_TRACE) or ""
    return InferCall(
        model=model,
        version=version,
        inputs=inputs,
        outputs=outputs,
        parameters=passed,
        arrived_at_ns=arrived_at_ns,
        priority=priority,
        tier=None if tier is None else TierName(tier),
        tenant=None if tenant is None else TenantId(tenant),
        budget_ns=budget_ns,
        budget_source="request" if budget_ns is None else budget_source,
        credential=credential,
        traceparent=traceparent,
    )


def credential_of(headers: Mapping[bytes, bytes]) -> Secret:
    """The key that a request brings; empty for none. `headway-key` wins over `authorization`."""
    key = headers.get(HEADER_KEY)
    if key is None:
        scheme, _, key = headers.get(HEADER_AUTHORIZATION, b"").strip().partition(b" ")
        if scheme.lower() != b"bearer":
            return _NO_KEY
    return Secret(key.strip().decode("latin-1"))


def _passed_on(parameters: Mapping[str, Any]) -> dict[str, ParameterValue]:
    """Parameters for the model; null means absent."""
    passed: dict[str, ParameterValue] = {}
    for name, value in parameters.items():
        if name in _RESERVED or name.startswith(_RESERVED_PREFIXES) or value is None:
            continue
        if not isinstance(value, str | int | float | bool):
            raise InvalidRequestError(
                f"parameter `{shown(name)}` is neither a string, a number nor a boolean"
            )
        passed[name] = value
    return passed


def _priority(value: object, where: str) -> int | None:
    number = _whole_number(value)
    if number is None or number > PRIORITY_MAX:
        raise InvalidRequestError(
            f"{where} is `{shown(value)}`, not an integer from 0 to {PRIORITY_MAX}",
            hint="1 is served first; 0 leaves it to the model",
        )
    return number or None


def _timeout_ns(value: object) -> int | None:
    number = _whole_number(value)
    if number is None or number >= 2**64:
        raise InvalidRequestError(
            f"parameter `timeout` is `{shown(value)}`, not a whole number of microseconds",
            hint="leave it out, or send 0, for no limit of your own",
        )
    return min(number * NS_PER_US, BUDGET_NS_MAX) or None


def _whole_number(value: object) -> int | None:
    """A non-negative integer or its decimal digits; 0 for None; None for anything else."""
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return value if type(value) is int and value >= 0 else None


def _header_budget_ns(header: bytes | None) -> int | None:
    if header is None:
        return None
    try:
        budget_ms = float(header)
    except ValueError:
        budget_ms = -1.0
    if not isfinite(budget_ms) or budget_ms < 0:
        raise InvalidRequestError(
            f"`headway-budget-ms: {shown(header)}` is no number of milliseconds from 0 up"
        )
    # Rounded down: time left is never overstated.
    return int(min(budget_ms * NS_PER_MS, float(BUDGET_NS_MAX)))


def _named(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return value.decode("latin-1").strip() or None if value else None


def shown(value: object) -> str:
    """A client's value for an error text: never long, and never a number too long to print."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    text = str(value)
    return text if len(text) <= 80 else text[:80] + "…"
