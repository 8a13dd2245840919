"""Regions of shared memory: what may be registered, and what is read and written there."""

import contextlib
import itertools
import os
from multiprocessing import shared_memory

import pytest

from headway.core import Datatype, Tensor
from headway.errors import InvalidRequestError, NotAllowedError
from headway.frontends import Regions
from headway.frontends.shared_memory import Reading, place_of

NUMBERS = itertools.count()


def a_name():
    """Of shared memory, that no other test has."""
    return f"headway-test-{os.getpid()}-{next(NUMBERS)}"


@pytest.fixture
def memory():
    """Sixty-four bytes that others can open by name."""
    made = shared_memory.SharedMemory(a_name(), create=True, size=64)
    yield made
    made.close()
    with contextlib.suppress(FileNotFoundError):
        made.unlink()


@pytest.fixture
def regions(memory):
    """One region, `r`: the thirty-two bytes from the eighth on."""
    regions = Regions(is_allowed=True)
    regions.register("r", f"/{memory.name}", 8, 32)
    yield regions
    regions.unregister("")


def at(regions, **parameters):
    """A place in the region `r`."""
    named = {f"shared_memory_{name}": value for name, value in parameters.items()}
    return place_of(regions, "input `x`", {"shared_memory_region": "r", **named})


def test_what_a_client_writes_is_read_and_the_other_way_round(regions, memory):
    """At the region's offset and at the tensor's own."""
    memory.buf[10:14] = b"abcd"
    assert at(regions, byte_size=4, offset=2).read() == b"abcd"
    at(regions, byte_size=4, offset=28).write(Tensor("y", Datatype.UINT8, (4,), b"wxyz"))
    assert bytes(memory.buf[36:40]) == b"wxyz"


def test_what_is_read_is_a_copy(regions, memory):
    """A client that writes on changes no request that has arrived."""
    memory.buf[8:10] = b"ab"
    data = at(regions, byte_size=2).read()
    memory.buf[8:10] = b"cd"
    assert data == b"ab"


def test_memory_that_was_cut_off_is_refused_and_kills_nobody(regions, memory):
    """To touch a page that is no longer there would end the server."""
    place = at(regions, byte_size=4)
    os.truncate(f"/dev/shm/{memory.name}", 0)
    with pytest.raises(InvalidRequestError, match="made smaller"):
        place.read()
    with pytest.raises(InvalidRequestError, match="made smaller"):
        place.write(Tensor("y", Datatype.UINT8, (4,), b"wxyz"))
    os.truncate(f"/dev/shm/{memory.name}", 64)
    assert place.read() == bytes(4)


def test_region_that_was_given_back_meanwhile_is_refused(regions):
    """Its request came before, and its output is not written."""
    place = at(regions, byte_size=4)
    regions.unregister("r")
    with pytest.raises(InvalidRequestError, match="no longer registered"):
        place.write(Tensor("y", Datatype.UINT8, (4,), b"wxyz"))


def test_output_that_is_larger_than_its_place_is_refused(regions):
    """Nothing of it is written."""
    with pytest.raises(InvalidRequestError, match="more than the 3"):
        at(regions, byte_size=3).write(Tensor("y", Datatype.UINT8, (4,), b"wxyz"))


@pytest.mark.parametrize(
    "parameters",
    [
        {"byte_size": 33},
        {"byte_size": 4, "offset": 29},
        {"byte_size": -1},
        {"byte_size": 4, "offset": -1},
        {"byte_size": None},
        {"byte_size": True},
        {"byte_size": 2**80},
        {"byte_size": "4"},
        {"byte_size": 4, "region": "q"},
        {"byte_size": 4, "region": 7},
    ],
)
def test_place_must_be_within_its_region(regions, parameters):
    """Whatever a client sends."""
    with pytest.raises(InvalidRequestError):
        at(regions, **parameters)


@pytest.mark.parametrize("key", ["", "/", "..", "/..", "../etc/passwd", "/a/b", "a\0b", "x" * 300])
def test_key_names_shared_memory_and_no_other_file(key):
    """Whoever registers cannot leave the folder."""
    with pytest.raises(InvalidRequestError, match="names no shared memory"):
        Regions(is_allowed=True).register("r", key, 0, 4)


@pytest.mark.parametrize(("offset", "size"), [(0, 65), (60, 5), (-1, 4), (0, 0), (2**62, 2**62)])
def test_region_must_be_within_the_memory(memory, offset, size):
    """No more than there is."""
    with pytest.raises(InvalidRequestError, match="are not in the"):
        Regions(is_allowed=True).register("r", memory.name, offset, size)


def test_memory_that_is_not_there_is_an_error():
    """It must be created first."""
    with pytest.raises(InvalidRequestError, match="No such file"):
        Regions(is_allowed=True).register("r", f"/{a_name()}", 0, 4)


def test_names_are_registered_once_and_can_be_given_back(regions, memory):
    """One by one or all together; what is not there may be given back, too."""
    with pytest.raises(InvalidRequestError, match="already"):
        regions.register("r", memory.name, 0, 4)
    regions.register("s", memory.name, 0, 4)
    assert [region.name for region in regions.all()] == ["r", "s"]
    regions.unregister("r")
    regions.unregister("r")
    assert [region.name for region in regions.all()] == ["s"]
    with pytest.raises(InvalidRequestError, match="no shared memory region `r`"):
        regions.all("r")
    regions.unregister("")
    assert regions.all() == []


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_region_has_a_name(memory, name):
    """Of a sensible length."""
    with pytest.raises(InvalidRequestError, match="a region has a name"):
        Regions(is_allowed=True).register(name, memory.name, 0, 4)


def test_nothing_is_registered_where_it_is_not_allowed(memory):
    """And the hint says where to switch it on."""
    with pytest.raises(NotAllowedError, match=r"server\.shared_memory"):
        Regions(is_allowed=False).register("r", memory.name, 0, 4)


def test_one_request_reads_no_more_than_it_may(regions):
    """A small body may name one region again and again, and so ask for any amount."""
    regions.request_bytes_max = 50
    reading, place = Reading(regions), at(regions, byte_size=20)
    assert len(reading.read(place)) == 20
    assert len(reading.read(place)) == 20
    with pytest.raises(InvalidRequestError, match="more than 50 bytes of inputs"):
        reading.read(place)
    assert len(Reading(regions).read(place)) == 20
