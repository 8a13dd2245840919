"""An error in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`.

Statuses, headers and codes are those of `rest_errors`; here is only how they are written down.
`reason`, `limit`, `stage` and `retry_after_ms` stand beside `code` where there is one. `type`
follows from the status. Two headers are what OpenAI's clients look for: `retry-after-ms`, for whole
seconds are long, and `x-should-retry`, which keeps them from asking again for what is never done
here.
"""

from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from headway.errors import InvalidRequestError, ModelNotFoundError
from headway.frontends.rest_errors import JSON_TYPE, Answer, Headers, explain

__all__ = ["OpenAiErrorBody", "ParameterError", "openai_answer_to"]

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_UNSUPPORTED: Final = 501
_NO_RETRY: Final = (b"x-should-retry", b"false")


class ParameterError(InvalidRequestError):
    """A key of the body is not what it should be; ``param`` is its name."""

    def __init__(self, message: str, *, param: str | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.param = param


class OpenAiError(Struct, kw_only=True):
    """What went wrong."""

    message: str
    type: str
    """A word for the status."""
    param: str | None
    """The key of the body that it is about."""
    code: str
    """As in headway's list of errors."""
    reason: str | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


class OpenAiErrorBody(Struct):
    """The body of every answer that is no success."""

    error: OpenAiError


_encoder: Final = Encoder()


def openai_answer_to(error: Exception) -> Answer:
    """The response that tells a client of an error."""
    told = explain(error)
    body = OpenAiErrorBody(
        OpenAiError(
            message=told.body.error,
            type=_type_of(told.status),
            param=_param_of(error),
            code=told.body.code,
            reason=told.body.reason,
            limit=told.body.limit,
            stage=told.body.stage,
            retry_after_ms=told.body.retry_after_ms,
        )
    )
    more: Headers = ()
    if isinstance(told.body.retry_after_ms, int):
        more = ((b"retry-after-ms", b"%d" % told.body.retry_after_ms),)
    elif told.status == _UNSUPPORTED:
        more = (_NO_RETRY,)
    headers = [JSON_TYPE, *told.headers, *more]
    return Answer(told.status, _encoder.encode(body), headers, told.foreseen, (), told.request_id)


def _type_of(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def _param_of(error: Exception) -> str | None:
    if isinstance(error, ParameterError):
        return error.param
    return "model" if isinstance(error, ModelNotFoundError) else None
