"""Tensors that lie in memory which a client on the same machine shares with the server.

A client registers a region: the name of a POSIX shared memory object, and which part of it. From
then on a request may name a region instead of bringing a tensor, and have an output written there.
What is read is copied when the request arrives, so a client may write again as soon as it is
answered; nothing of a batch ever points into memory that others can change.

Whoever may register may read and write any shared memory object that the server's user may. So it
is off unless it is switched on.

Knows files and bytes. Refuses to know requests and replies.
"""

import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.core import Tensor
from headway.errors import InvalidRequestError, NotAllowedError

__all__ = ["Place", "Reading", "Region", "Regions", "place_of"]

_FOLDER: Final = Path("/dev/shm")  # noqa: S108 (where Linux keeps what shm_open makes)
_REGIONS_MAX: Final = 1024
_NAME_CHARS_MAX: Final = 255


class Region:
    """A part of a shared memory object that a client has registered."""

    __slots__ = ("_memory", "byte_size", "key", "name", "offset")

    def __init__(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Map it.

        Raises:
            InvalidRequestError: there is no such object, or it is too small.
        """
        self.name, self.key = name, key
        self.offset, self.byte_size = offset, byte_size
        path = _FOLDER / _object_of(name, key)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise InvalidRequestError(
                f"region `{name}`: there is no shared memory `{key}` to open: {error.strerror}",
                hint="create it before it is registered, readable for the server's user",
            ) from None
        try:
            size = os.fstat(handle).st_size
            if byte_size < 1 or offset < 0 or offset + byte_size > size:
                raise InvalidRequestError(
                    f"region `{name}`: {byte_size} bytes from {offset} on are not in the {size} of"
                    f" `{key}`"
                )
            self._memory = mmap.mmap(handle, offset + byte_size)
        finally:
            os.close(handle)

    def read(self, offset: int, byte_size: int) -> bytes:
        """A copy of some of it; raises what `check` does."""
        self.check()
        start = self.offset + offset
        return self._memory[start : start + byte_size]

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes there; raises what `check` does."""
        self.check()
        start = self.offset + offset
        self._memory[start : start + len(data)] = data

    def check(self) -> None:
        """See that all of it is still there: who touches what is not is killed (`SIGBUS`).

        A client that makes its object anew, and smaller, cuts off the old one. One that does so
        between this look and the copy still ends the server; it is one of those that are trusted.

        Raises:
            InvalidRequestError: it was unregistered, or its object was cut off.
        """
        if self._memory.closed:
            raise InvalidRequestError(f"region `{self.name}` is no longer registered")
        if self._memory.size() < self.offset + self.byte_size:
            raise InvalidRequestError(
                f"region `{self.name}`: the shared memory `{self.key}` was made smaller",
                hint="unregister it, and register what there is now",
            )

    def close(self) -> None:
        """Map it no longer."""
        self._memory.close()


class Place(NamedTuple):
    """Where in a region one tensor lies."""

    whose: str
    """For errors."""
    region: Region
    offset: int
    byte_size: int

    def read(self) -> bytes:
        """The tensor's bytes."""
        return self.region.read(self.offset, self.byte_size)

    def write(self, tensor: Tensor) -> None:
        """Put a tensor there.

        Raises:
            InvalidRequestError: it is larger.
        """
        data = memoryview(tensor.data).cast("B")
        if len(data) > self.byte_size:
            raise InvalidRequestError(
                f"{self.whose} has {len(data)} bytes, more than the {self.byte_size} that are kept"
                f" for it in region `{self.region.name}`"
            )
        self.region.write(self.offset, data)


class Regions:
    """Every region that clients have registered.

    Args:
        is_allowed: whether there may be any.
        request_bytes_max: that one request may have read; its body says little of how much it is.

    Invariants: at most `_REGIONS_MAX` at once; what is unregistered is unmapped.
    """

    def __init__(self, *, is_allowed: bool, request_bytes_max: int = 64 << 20) -> None:
        self._is_allowed = is_allowed
        self.request_bytes_max = request_bytes_max
        self._regions: dict[str, Region] = {}

    @property
    def is_allowed(self) -> bool:
        """Whether clients may register any."""
        return self._is_allowed

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Know one more.

        Raises:
            NotAllowedError: the server shares no memory with its clients.
            InvalidRequestError: there is one of that name, or it cannot be mapped.
        """
        if not self._is_allowed:
            raise NotAllowedError(
                "shared memory may not be used here",
                hint="set server.shared_memory: true where every client is trusted",
            )
        if not name or len(name) > _NAME_CHARS_MAX:
            raise InvalidRequestError(f"a region has a name of 1 to {_NAME_CHARS_MAX} characters")
        if name in self._regions:
            raise InvalidRequestError(
                f"a region `{name}` is registered already", hint="unregister it, or take another"
            )
        if len(self._regions) >= _REGIONS_MAX:
            raise InvalidRequestError(f"{_REGIONS_MAX} regions is all there may be")
        self._regions[name] = Region(name, key, offset, byte_size)

    def unregister(self, name: str) -> None:
        """Forget one; of every name is an empty one, and it is no error if there was none."""
        names = [name] if name else list(self._regions)
        for each in names:
            region = self._regions.pop(each, None)
            if region is not None:
                with suppress(BufferError):
                    region.close()

    def find(self, name: str) -> Region:
        """One by its name.

        Raises:
            InvalidRequestError: there is none.
        """
        region = self._regions.get(name)
        if region is None:
            raise InvalidRequestError(
                f"no shared memory region `{name[:_NAME_CHARS_MAX]}` is registered",
                hint="register it first; a server that was started again knows none",
            )
        return region

    def all(self, name: str = "") -> list[Region]:
        """One, or for an empty name every one.

        Raises:
            InvalidRequestError: there is none of that name.
        """
        return [self.find(name)] if name else list(self._regions.values())


class Reading:
    """What one request has read out of shared memory."""

    __slots__ = ("_left_bytes", "_max_bytes")

    def __init__(self, regions: Regions) -> None:
        self._left_bytes = self._max_bytes = regions.request_bytes_max

    def read(self, place: Place) -> bytes:
        """The bytes of one tensor more.

        Raises:
            InvalidRequestError: together they are more than a request may have.
        """
        self._left_bytes -= place.byte_size
        if self._left_bytes < 0:
            raise InvalidRequestError(
                f"{place.whose}: the request has more than {self._max_bytes} bytes of inputs",
                hint="send less at once, or raise the server's limit on bodies",
            )
        return place.read()


def place_of(regions: Regions, whose: str, parameters: Mapping[str, Any]) -> Place:
    """Where a tensor is, by the parameters of an input or output.

    Args:
        regions: those there are.
        whose: the tensor, for errors.
        parameters: `shared_memory_region`, `shared_memory_byte_size`, `shared_memory_offset`.

    Raises:
        InvalidRequestError: there is no such place.
    """
    name = parameters.get("shared_memory_region")
    size, offset = parameters.get("shared_memory_byte_size"), parameters.get("shared_memory_offset")
    if not isinstance(name, str):
        raise InvalidRequestError(f"{whose}: `shared_memory_region` is no name")
    region = regions.find(name)
    offset = 0 if offset is None else offset
    if type(size) is not int or type(offset) is not int or offset < 0 or size < 0:
        raise InvalidRequestError(
            f"{whose}: `shared_memory_byte_size` and `shared_memory_offset` are no numbers of bytes"
        )
    if offset + size > region.byte_size:
        raise InvalidRequestError(
            f"{whose}: {size} bytes from {offset} on are not in the {region.byte_size} of region"
            f" `{name}`"
        )
    return Place(whose, region, offset, size)


def _object_of(name: str, key: str) -> str:
    """The file of a shared memory object; only those of the one folder can be named."""
    plain = key.removeprefix("/")
    is_name = 0 < len(plain) <= _NAME_CHARS_MAX and plain not in {".", ".."}
    if not is_name or "/" in plain or "\0" in plain:
        raise InvalidRequestError(
            f"region `{name[:_NAME_CHARS_MAX]}`: `{key[:_NAME_CHARS_MAX]}` names no shared memory"
        )
    return plain
