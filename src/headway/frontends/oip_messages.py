"""The protocol's gRPC messages, as classes made from the committed descriptors.

They live in a descriptor pool of their own. In protobuf's common pool two packages that both bring
a file of package `inference`, as every client of the protocol does, cannot be imported into one
process.

Knows descriptors. Refuses to know what a message means.
"""

from importlib.resources import files
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["HEALTH", "INFERENCE", "POOL", "Messages"]

_FOLDER: Final = files("headway.frontends") / "proto"

POOL: Final = descriptor_pool.DescriptorPool()


def _add(name: str) -> None:
    found = descriptor_pb2.FileDescriptorSet.FromString((_FOLDER / name).read_bytes())
    for file in found.file:
        POOL.Add(file)


_add("inference.binpb")
_add("health.binpb")


class Messages:
    """The message classes of a service, by name.

    Args:
        service: its full name.
    """

    def __init__(self, service: str) -> None:
        self._service = POOL.FindServiceByName(service)
        self.service = service
        package = service.rpartition(".")[0]
        self._package = package
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """A class by its name within the package, as `ModelInferRequest`."""
        known = self._classes.get(name)
        if known is None:
            descriptor = POOL.FindMessageTypeByName(f"{self._package}.{name}")
            known = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return known

    def request_of(self, method: str) -> Any:
        """The class of what a method takes."""
        descriptor = self._service.FindMethodByName(method).input_type
        return message_factory.GetMessageClass(descriptor)


INFERENCE: Final = Messages("inference.GRPCInferenceService")
HEALTH: Final = Messages("grpc.health.v1.Health")
