"""Bytes between a rank's host and its device in an iteration, where some of its state is on the host."""

from collections.abc import Collection
from typing import NamedTuple

from zero_emulator.precision import ITEMSIZE, Precision


class LinkBytes(NamedTuple):
    """Bytes that a rank copies each way."""

    to_host: int
    to_device: int


def link_bytes(
    elements: int, reductions: int, precision: Precision, on_host: Collection[str], *, updates: bool = True
) -> LinkBytes:
    """What the link carries of a layer of which a rank updates so many elements, by the state on the host.

    Of s elements, reduced K times: K br s to the host where gradients are kept there, or bg s for an update
    there; and to the device bg s for an update of gradients from the host, or bw s of weights that were
    updated there. Without ``updates``, as where one is voted down, only what is reduced.
    """
    gradients, optimizer = "gradient" in on_host, "moment" in on_host
    summed, weight = ITEMSIZE[precision.summed_gradient], ITEMSIZE[precision.weight]
    to_host = to_device = 0
    if gradients:
        to_host += reductions * ITEMSIZE[precision.reduce] * elements
    if updates and optimizer:
        to_host += 0 if gradients else summed * elements
        to_device += weight * elements
    elif updates and gradients:
        to_device += summed * elements
    return LinkBytes(to_host, to_device)
