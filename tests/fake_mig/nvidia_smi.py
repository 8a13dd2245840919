"""A stand-in for `nvidia-smi` that knows what headway's scripts type, over the stand-in library.

So scripts and NVML see one machine. What it prints has the columns of the real one.
"""

import sys
from collections.abc import Sequence

from headway.devices import MigDriver, MigGpu, MigInstance, open_mig
from headway.errors import HeadwayError

NOT_FOUND = 6
TABLE = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
"""


def main(words: Sequence[str]) -> int:
    """Do what the words say."""
    with open_mig() as driver:
        match words:
            case ["mig", "-i", index, "-lgi"]:
                return listed(driver.gpu(int(index)))
            case ["mig", "-i", index, "-cgi", place, "-C"]:
                profile, _, start = place.partition(":")
                driver.create(int(index), profile, int(start))
            case ["mig", "-i", index, "-gi", instance, "-dci"]:
                del index, instance  # goes with the next
            case ["mig", "-i", index, "-gi", instance, "-dgi"]:
                driver.destroy(int(index), int(instance))
            case ["-i", index, "-mig", mode]:
                switched(driver, int(index), is_on=mode == "1")
            case ["-i", index, "--query-gpu=mig.mode.current", "--format=csv,noheader"]:
                print("Enabled" if driver.gpu(int(index)).has_mig else "Disabled")
            case ["-q", "-i", index]:
                queried(driver.gpu(int(index)))
            case ["-L", "-i", index]:
                named(driver.gpu(int(index)))
            case _:
                print(f"unknown: {words}", file=sys.stderr)
                return 2
    return 0


def switched(driver: MigDriver, index: int, *, is_on: bool) -> None:
    """Say it as the real one does, which is content with a mode that waits for a reset."""
    if not driver.set_mode(index, on=is_on):
        print("Warning: MIG mode is in pending enable state", file=sys.stderr)


def listed(gpu: MigGpu) -> int:
    """`-lgi`."""
    if not gpu.instances:
        print("No GPU instances found: Not Found")
        return NOT_FOUND
    print(TABLE, end="")
    for one in gpu.instances:
        place = f"{one.placement.start}:{one.placement.size}"
        print(f"|   {gpu.index}  MIG {one.profile:<15} 19 {one.id:>10} {place:>12}    |")
        print("+-------------------------------------------------------+")
    return 0


def queried(gpu: MigGpu) -> None:
    """`-q`, as far as MIG devices go."""
    print("    MIG Devices")
    for number, (instance, _) in enumerate(devices(gpu)):
        print("        MIG Device")
        print(f"            Index                             : {number}")
        print(f"            GPU Instance ID                   : {instance.id}")
        print("            Compute Instance ID               : 0")


def named(gpu: MigGpu) -> None:
    """`-L`."""
    print(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
    for number, (instance, uuid) in enumerate(devices(gpu)):
        print(f"  MIG {instance.profile:<15} Device {number:>2}: (UUID: {uuid})")


def devices(gpu: MigGpu) -> list[tuple[MigInstance, str]]:
    """MIG devices in the order of their indexes."""
    return [(one, uuid) for one in gpu.instances or () for uuid in one.uuids or ()]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HeadwayError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
