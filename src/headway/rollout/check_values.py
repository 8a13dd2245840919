"""What a schema cannot say of a configuration: devices that are named twice, sets that do not fit.

Knows mig-parted's and the device plugin's formats.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headway.rollout.check_shapes import Fault, shape_faults

__all__ = ["device_plugin_faults", "mig_parted_faults"]

_SLICES: Final = 7
"""Of compute, that the largest GPU divides into."""
_MEDIA: Final = ("+me", "+me.all")


def mig_parted_faults(value: Mapping[str, Any]) -> list[Fault]:
    """What mig-parted would refuse, at once or on the node."""
    found = shape_faults("mig-parted", value)
    return found or [
        fault.within(f"mig-configs.{name}")
        for name, entries in value["mig-configs"].items()
        for fault in _config_faults(entries)
    ]


def _config_faults(entries: list[Mapping[str, Any]]) -> Iterator[Fault]:
    taken: dict[int, int] = {}
    for index, entry in enumerate(entries):
        devices = entry["devices"]
        if isinstance(devices, list) and "device-filter" not in entry:
            for device in devices:
                if device in taken:
                    message = f"device {device} has an entry already, number {taken[device]}"
                    yield Fault(f"[{index}].devices", message)
                taken[device] = index
        counts: Mapping[str, int] = entry.get("mig-devices") or {}
        slices = sum(int(_slices(profile)) * count for profile, count in counts.items())
        if slices > _SLICES:
            message = f"{slices} compute slices on one GPU, which has {_SLICES} at most"
            yield Fault(f"[{index}].mig-devices", message)
        media = sum(count for profile, count in counts.items() if profile.endswith(_MEDIA))
        if media > 1:
            message = f"{media} instances with media extensions, which only one can have"
            yield Fault(f"[{index}].mig-devices", message)


def _slices(profile: str) -> str:
    """Of the GPU instance: `1c.3g.40gb` is a part of one of 3."""
    return profile.rpartition("c.")[2].partition("g.")[0]


def device_plugin_faults(value: Mapping[str, Any]) -> list[Fault]:
    """What the device plugin would refuse, or would take and not do."""
    found = shape_faults("device-plugin", value)
    if found:
        return found
    sharing: Mapping[str, Any] = value.get("sharing", {})
    for kind, settings in sharing.items():
        names = [resource["name"] for resource in settings["resources"]]
        for name in sorted({name for name in names if names.count(name) > 1}):
            found.append(Fault(f"sharing.{kind}.resources", f"`{name}` stands there twice"))
        uses_mig = any(name.startswith("nvidia.com/mig-") for name in names)
        if uses_mig and value.get("flags", {}).get("migStrategy") != "mixed":
            message = "MIG resources have these names only with `migStrategy: mixed`"
            found.append(Fault("flags", message))
    return found
