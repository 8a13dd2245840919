"""Identifiers. Each is its own type, so that mypy refuses one where another is meant."""

from typing import NewType

__all__ = [
    "BatchId",
    "BucketKey",
    "DeviceName",
    "ModelName",
    "ReplicaId",
    "RequestId",
    "SlotIndex",
    "TenantId",
    "TierName",
]

RequestId = NewType("RequestId", int)
"""Counts up from 1 in arrival order within one engine; calls of pipelines, which are no requests of
the kernel's, count down from -1. A client's own id stays at the edge."""
BatchId = NewType("BatchId", int)
ReplicaId = NewType("ReplicaId", int)
ModelName = NewType("ModelName", str)
TierName = NewType("TierName", str)
TenantId = NewType("TenantId", str)
DeviceName = NewType("DeviceName", str)
SlotIndex = NewType("SlotIndex", int)
BucketKey = NewType("BucketKey", str)
"""Requests with equal keys may share a batch: version, shapes, what else changes results."""
