"""Slots: not written before their users are awaited, as large as what they hold, empty in the end."""

from collections.abc import Iterator
from functools import partial
from threading import Event

import numpy as np
import pytest

from zero_emulator.layout import Array
from zero_emulator.meter import DeviceMemoryError, Meter
from zero_emulator.offload import Copier, Link, Slot, SlotError, Slots, Transfers


def metered(num: int = 2, limit: int | None = None) -> tuple[Meter, Slots]:
    meter = Meter(limit)
    return meter, Slots(partial(meter.empty, "slot"), num)


def test_slots_take_turns_and_hold_what_was_written_last() -> None:
    meter, slots = metered()
    for number, size in enumerate((3, 5, 7, 2)):
        slot = slots.next(f"layer {number}")
        assert (slot.number, slot.name) == (number % 2, f"layer {number}")
        assert slot.write(size, np.float32).shape == (size,)
    assert meter.alive["slot"] == (7 + 2) * 4
    assert meter.peak.total == (5 + 7) * 4


@pytest.mark.parametrize("finished", [True, False])
def test_a_slot_is_not_written_before_its_user_is_awaited_finished_or_not(finished: bool) -> None:
    meter, slots = metered()
    over = Event()
    slot = slots.next("layer 3")
    memory = slot.write(4, np.float64)
    slot.used_by("the all-gather of layer 3", over.wait)
    if finished:
        over.set()
    message = "slot 0 holds layer 3, and the all-gather of layer 3 has not been awaited: .* before 9 elements"
    with pytest.raises(SlotError, match=message):
        slot.write(9, np.float64)
    assert meter.alive["slot"] == memory.nbytes, "what it held is still there"
    over.set()
    slot.settle()
    with pytest.raises(SlotError, match="slot 0 is empty"):
        slot.memory  # noqa: B018
    assert slot.write(9, np.float64) is slot.memory


def test_the_next_turn_finishes_all_users_in_their_order_and_frees_the_memory_first() -> None:
    meter, slots = metered(num=1, limit=10)
    finished: list[object] = []
    slot = slots.next("one")
    slot.write(10, np.uint8)
    for user in ("copy", "ring"):
        slot.used_by(user, lambda user=user: finished.append((user, meter.alive["slot"])))
    again = slots.next("other")
    assert finished == [("copy", 10), ("ring", 10)]
    assert meter.alive["slot"] == 0
    again.write(10, np.uint8)  # would not fit beside the first
    slots.drain()
    assert len(finished) == 2, "a user is finished once"
    assert meter.alive["slot"] == 0


def test_a_slot_written_again_holds_one_piece_of_memory_at_a_time() -> None:
    meter, slots = metered(limit=10)
    slot = slots.next("it")
    for size in (6, 10, 1):
        slot.write(size, np.uint8)
        assert meter.alive["slot"] == size
    with pytest.raises(DeviceMemoryError):
        slot.write(11, np.uint8)


def test_a_user_that_fails_remains_and_so_do_those_behind_it() -> None:
    _, slots = metered()
    slot = slots.next("it")
    slot.write(1, np.uint8)
    troubles = [ZeroDivisionError("no")]

    def ring() -> None:
        if troubles:
            raise troubles.pop()

    slot.used_by("a ring", ring)
    slot.used_by("a copy", lambda: None)
    with pytest.raises(ZeroDivisionError):
        slot.settle()
    with pytest.raises(SlotError, match="a ring has not been awaited"):
        slot.write(1, np.uint8)
    slot.settle()
    slot.write(1, np.uint8)


def test_drain_settles_the_one_filled_first_first() -> None:
    meter, slots = metered(num=3)
    finished: list[int] = []
    for number in range(4):
        slot = slots.next(str(number))
        slot.write(1, np.uint8)
        slot.used_by("it", partial(finished.append, number))
    assert finished == [0]
    slots.drain()
    assert finished == [0, 1, 2, 3]
    assert not meter.alive["slot"]


def test_no_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="0 slots hold nothing: give 1, or 2"):
        Slots(np.empty, 0)


class LateLink(Link):
    """Each copy takes place when the rank has long computed on, if nothing made it wait."""

    def to_device(self, source: Array, target: Array) -> None:
        Event().wait(0.005)
        super().to_device(source, target)

    def to_host(self, source: Array, target: Array) -> None:
        Event().wait(0.005)
        super().to_host(source, target)


def update_twice(slots: Slots, transfers: Transfers, host: list[Array]) -> None:
    """In through a slot, doubled there, out again by the copy thread: as an offloaded optimizer does."""
    for _ in range(2):
        for piece, kept in enumerate(host):
            slot = slots.next(f"piece {piece}")
            transfer = transfers.to_device(f"piece {piece}", kept, slot.write(kept.size, kept.dtype))
            slot.used_by("the copy to the device", transfer.wait)
            transfer.wait()
            np.multiply(slot.memory, 2, out=slot.memory)
            slot.used_by("the copy to the host", transfers.to_host(slot.name, slot.memory, kept).wait)
        slots.drain()


@pytest.fixture(params=[Link, LateLink])
def transfers(request: pytest.FixtureRequest) -> Iterator[Transfers]:
    transfers = Transfers(request.param(), Copier())
    yield transfers
    transfers.copier.close()


@pytest.mark.parametrize("num", [1, 2, 3])
def test_state_comes_back_updated_however_late_the_copies(num: int, transfers: Transfers) -> None:
    meter, slots = metered(num, limit=num * 5 * 8)
    host = [np.arange(5.0) + piece for piece in range(4)]
    update_twice(slots, transfers, host)
    for piece, kept in enumerate(host):
        np.testing.assert_array_equal(kept, (np.arange(5) + piece) * 4)
    assert transfers.link.to_device_bytes == transfers.link.to_host_bytes == 2 * 4 * 5 * 8
    assert meter.alive["slot"] == 0


def test_whoever_forgets_to_settle_fails_however_quick_the_copies(
    transfers: Transfers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slot, "settle", lambda slot: None)
    with pytest.raises(SlotError, match="slot 0 holds piece 2, and the copy to the device has not been"):
        update_twice(metered()[1], transfers, [np.arange(5.0) for _ in range(4)])
