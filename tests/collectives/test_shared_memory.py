"""Memory that all processes see: given away, taken back, and read where it lies."""

from typing import Any

import numpy as np

from collectives.communicator import IN_PLACE, Communicator
from collectives.transports.base import Transport, address_of
from collectives.transports.processes import run_processes
from collectives.transports.processes.memory import MemoryReader
from collectives.transports.processes.pieces import Pieces
from collectives.transports.processes.shared import SharedMemory


def test_memory_of_the_wire_is_seen_by_all_and_asks_neither_kernel_nor_window(monkeypatch: Any) -> None:
    def refused(*_: Any) -> bool:
        raise AssertionError("the kernel is asked")

    monkeypatch.setattr(MemoryReader, "read", refused)
    monkeypatch.setattr(Pieces, "send", refused)

    def body(transport: Transport) -> list[int]:
        comm = Communicator(transport)
        own, others = transport.empty(50_000), transport.empty(150_000)
        own[:] = comm.rank
        comm.all_gather(own, others).wait()
        comm.all_reduce(IN_PLACE, others.view(np.uint16)).wait()  # its scratch lies there, too
        return others.view(np.uint16)[::25_000].tolist()

    assert run_processes(3, body) == [[0, 3 * 0x0101, 3 * 0x0202]] * 3


def test_a_part_gives_its_memory_away_again_once_nobody_holds_it() -> None:
    part = SharedMemory(2, part_bytes=4096).part(1)
    first, second = part.empty(2000), part.empty(2000)
    addresses = address_of(first), address_of(second)
    assert addresses[1] - addresses[0] == 2048
    beyond = part.empty(1)
    assert not addresses[0] <= address_of(beyond) < addresses[0] + 4096, "there is no room left"
    slice_of_second = second[10:20]
    del first, second
    assert address_of(part.empty(100)) == addresses[0]
    assert not addresses[1] <= address_of(part.empty(2100)) < addresses[1] + 2048, "a slice is held yet"
    del slice_of_second
    assert address_of(part.empty(4096)) == addresses[0], "neighbours are joined"


def test_only_what_lies_in_shared_memory_as_a_whole_is_found_there() -> None:
    shared = SharedMemory(2, part_bytes=4096)
    array = shared.part(0).empty(64)
    array[:] = range(64)
    found = shared.at(address_of(array) + 8, 56)
    assert found is not None
    assert found.tolist() == list(range(8, 64))
    assert shared.at(address_of(array) - 1, 8) is None
    assert shared.at(address_of(array) + 8190, 8) is None
    assert shared.at(address_of(np.empty(100, np.uint8)), 8) is None


def test_where_there_is_no_such_memory_ranks_do_without(monkeypatch: Any) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise OSError("out of address space")

    monkeypatch.setattr("collectives.transports.processes.shared.mmap.mmap", none)
    shared = SharedMemory(3)
    own = shared.part(2).empty(100)
    assert own.size == 100
    assert shared.at(address_of(own), 100) is None
