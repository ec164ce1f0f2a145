"""The link between host and device: exact bytes each way, and what a slower one would have cost."""

import time
from threading import Thread

import numpy as np
import pytest

from zero_emulator.offload import Copier, Copy, Link, Transfers, modelled_stall


def test_a_link_copies_and_counts_each_way() -> None:
    link, host, device = Link(), np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    link.to_device(host, device)
    np.testing.assert_array_equal(device, host)
    device += 1
    link.to_host(device[:2], host[4:])
    np.testing.assert_array_equal(host, [0, 1, 2, 3, 1, 2])
    assert (link.to_device_bytes, link.to_host_bytes) == (24, 8)


@pytest.mark.parametrize("target", [np.empty(6), np.empty(5, np.float32), np.empty((1, 6), np.float32)])
def test_a_copy_that_would_cast_or_broadcast_is_refused_and_not_counted(target: np.ndarray) -> None:
    link, source = Link(), np.zeros(6, np.float32)
    for copy, direction in ((link.to_host, "to host"), (link.to_device, "to device")):
        with pytest.raises(
            ValueError, match=rf"copy {direction}: float32 of shape \(6,\) into {target.dtype}"
        ):
            copy(source, target)
    assert (link.to_device_bytes, link.to_host_bytes) == (0, 0)


class Yielding(np.ndarray):
    """Lets another thread run between the two halves of adding its bytes to a count."""

    @property
    def nbytes(self) -> int:
        time.sleep(0)
        return super().nbytes


def test_no_byte_is_lost_when_threads_copy_at_once() -> None:
    link = Link()

    def many() -> None:
        source, target = np.zeros(3, np.uint8).view(Yielding), np.empty(3, np.uint8)
        for _ in range(100):
            link.to_host(source, target)

    threads = [Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert link.to_host_bytes == 4 * 100 * 3


def test_a_stall_is_what_computing_does_not_hide() -> None:
    assert modelled_stall(1000, 100, 4.0) == 6.0
    assert modelled_stall(1000, 100, 10.0) == modelled_stall(1000, 100, 11.0) == modelled_stall(0, 1, 0) == 0


@pytest.mark.parametrize("bandwidth", [0, -1.0, float("nan")])
def test_a_link_without_bandwidth_is_refused(bandwidth: float) -> None:
    for make in (Link, lambda bandwidth: modelled_stall(1, bandwidth, 0)):
        with pytest.raises(ValueError, match="bytes a second moves nothing"):
            make(bandwidth)


@pytest.mark.parametrize(("bandwidth", "stalls"), [(10.0, [5.0, 0.0]), (None, [None, None])])
def test_the_log_holds_what_was_computed_before_a_copy_was_needed(
    bandwidth: float | None, stalls: list[float | None]
) -> None:
    now = iter([100.0, 103.0, 110.0, 130.0])  # handed over, needed: twice
    link = Link(bandwidth, clock=lambda: next(now))
    transfers = Transfers(link, Copier())
    host, device = np.ones(10), np.zeros(10)
    first = transfers.to_device("layer 0", host, device)
    first.wait()
    first.wait()  # needed no second time
    assert device.all()
    transfers.to_host("layer 1", device[:1], host[:1]).wait()
    assert link.log == [
        Copy("layer 0", 80, "to device", 3.0, stalls[0]),
        Copy("layer 1", 8, "to host", 20.0, stalls[1]),
    ]
    transfers.copier.close()
