"""Large state lives on the host and passes through slots of the device, over a link that counts bytes."""

from zero_emulator.offload.copier import Copier, CopyTimeoutError, Ticket
from zero_emulator.offload.link import Copy, Link, modelled_stall
from zero_emulator.offload.slots import Slot, SlotError, Slots
from zero_emulator.offload.transfers import Transfer, Transfers

__all__ = [
    "Copier",
    "Copy",
    "CopyTimeoutError",
    "Link",
    "Slot",
    "SlotError",
    "Slots",
    "Ticket",
    "Transfer",
    "Transfers",
    "modelled_stall",
]
