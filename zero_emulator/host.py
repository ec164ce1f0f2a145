"""A rank's host: what of its state is kept there, and the link that it goes over."""

from dataclasses import dataclass

from zero_emulator.meter import Meter
from zero_emulator.offload import Transfers

OFFLOADS = {"gradients": ("gradient",), "optimizer": ("master", "moment")}
"""What may be kept on the host, and the kinds of state that it is."""


@dataclass(frozen=True)
class Host:
    """Memory of the host that a rank keeps some ``kinds`` of its state in, for updates or between them.

    Source: Ren et al., ZeRO-Offload, USENIX ATC 2021.
    """

    kinds: frozenset[str]
    meter: Meter
    transfers: Transfers

    @property
    def updates(self) -> bool:
        """Whether updates are made here: the optimizer's state is."""
        return "moment" in self.kinds


def on_host(offload: tuple[str, ...]) -> frozenset[str]:
    """The kinds of state that these offloads keep on the host."""
    return frozenset(kind for name in offload for kind in OFFLOADS[name])
