"""The error tree and its stable codes.

    HeadwayError(message, *, hint=None)         code
      RequestError                              request_failed
        InvalidRequestError                     invalid_request
        ModelNotFoundError                      model_not_found
        RejectedError(reason, retry_after_ns)   rejected
        UnavailableError                        unavailable
        DeadlineExceededError                   deadline_exceeded
        RequestCancelledError                   cancelled
        NotAuthenticatedError                   not_authenticated
        NotAllowedError                         not_allowed
        UnsupportedError                        unsupported
      ExecutorError                             executor_failed
        LoadError                               load_failed
        OutOfMemoryError                        out_of_memory
        WorkerLostError                         worker_lost
      ConfigError(path, value)                  bad_config
      InternalError                             internal
        InvalidTransitionError(story)           invalid_transition
        InvariantError                          invariant

Knows codes and words. Never a status number: those belong to the frontends.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

__all__ = [
    "ConfigError",
    "DeadlineExceededError",
    "ExecutorError",
    "HeadwayError",
    "InternalError",
    "InvalidRequestError",
    "InvalidTransitionError",
    "InvariantError",
    "LoadError",
    "ModelNotFoundError",
    "NotAllowedError",
    "NotAuthenticatedError",
    "OutOfMemoryError",
    "RejectedError",
    "RequestCancelledError",
    "RequestError",
    "UnavailableError",
    "UnsupportedError",
    "WorkerLostError",
]


class HeadwayError(Exception):
    """What happened, and what to do about it."""

    code: ClassVar[str] = "headway"
    device_ns = 0
    """Device time that was spent before it came to this, where some of the work had ended."""
    request_id = 0
    """By which records know the request that it ended; 0 where it ended none."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def retold(self, message: str) -> Self:
        """The same error in other words; whatever else it says stays as it is."""
        told = type(self).__new__(type(self))
        told.__dict__.update(self.__dict__)
        told.args = (message,)
        told.message = message
        told.__cause__ = self
        return told

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} (hint: {self.hint})"


class RequestError(HeadwayError):
    """One client call ended without a result."""

    code = "request_failed"


class InvalidRequestError(RequestError):
    """The client sent something that cannot be computed; sending it again will not help."""

    code = "invalid_request"


class ModelNotFoundError(RequestError):
    """No model, or no such version of it, is served under this name."""

    code = "model_not_found"


class RejectedError(RequestError):
    """Refused at arrival; nothing was computed. Try again after ``retry_after_ns``."""

    code = "rejected"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        retry_after_ns: int,
        limit: str = "",
        remaining: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.retry_after_ns = retry_after_ns
        self.limit = limit
        """The setting that it was refused by, where there is one."""
        self.remaining = remaining
        """What is left of that."""


class UnavailableError(RequestError):
    """The model or the server cannot take work now; another replica may."""

    code = "unavailable"


class DeadlineExceededError(RequestError):
    """The request's budget ran out; ``limit`` names the setting that set it."""

    code = "deadline_exceeded"

    def __init__(self, message: str, *, limit: str, stage: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        self.stage = stage


class RequestCancelledError(RequestError):
    """The client went away or took the request back."""

    code = "cancelled"


class NotAuthenticatedError(RequestError):
    """The client sent no key, or one that the server does not know."""

    code = "not_authenticated"


class NotAllowedError(RequestError):
    """The server is set up not to do this for a client."""

    code = "not_allowed"


class UnsupportedError(RequestError):
    """The protocol knows this; the server does not do it."""

    code = "unsupported"


class ExecutorError(HeadwayError):
    """The back end raised while it loaded or ran a model."""

    code = "executor_failed"


class LoadError(ExecutorError):
    """A model could not be loaded or warmed."""

    code = "load_failed"


class OutOfMemoryError(ExecutorError):
    """A device or a shared buffer had no room for the batch."""

    code = "out_of_memory"


class WorkerLostError(ExecutorError):
    """The worker process died with the batch in it. The request may be sent again."""

    code = "worker_lost"


class ConfigError(HeadwayError):
    """A configured value is wrong; ``path`` says where it stands."""

    code = "bad_config"

    def __init__(
        self, message: str, *, path: str = "", value: object = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.value = value


class InternalError(HeadwayError):
    """Always our bug."""

    code = "internal"


class InvalidTransitionError(InternalError):
    """A state met an event that its table does not list; ``story`` is how it got there."""

    code = "invalid_transition"

    def __init__(self, message: str, *, story: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.story = tuple(story)


class InvariantError(InternalError):
    """A law of the kernel does not hold."""

    code = "invariant"
