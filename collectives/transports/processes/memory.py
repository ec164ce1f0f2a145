"""Bytes from process to process in one copy: the receiver reads them in the sender's memory."""

import ctypes
import errno
import os
import sys
from typing import Any

from collectives.transports.base import Array, address_of

_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""By a sandbox or a security module; or the kernel has no such call."""


class _Stretch(ctypes.Structure):
    """The struct iovec of the kernel."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class MemoryReader:
    """Reads the memory of other processes of this user in one copy, where Linux lets it."""

    def __init__(self) -> None:
        self.allowed = sys.platform == "linux" and hasattr(_libc(), "process_vm_readv")
        if self.allowed:
            self._read: Any = _libc().process_vm_readv
            self._read.restype = ctypes.c_ssize_t
            self._here, self._there = _Stretch(), _Stretch()

    def read(self, pid: int, address: int, into: Array) -> bool:
        """Fill ``into`` from the other's memory; False, and ``allowed`` is no more, if that is refused."""
        target, done = address_of(into), 0
        while self.allowed and done < into.size:
            self._here.start, self._here.size = target + done, into.size - done
            self._there.start, self._there.size = address + done, into.size - done
            here, there = ctypes.byref(self._here), ctypes.byref(self._there)
            found = self._read(pid, here, 1, there, 1, 0)
            if found > 0:
                done += found
            elif ctypes.get_errno() in _REFUSED:
                self.allowed = False
            else:
                raise OSError(ctypes.get_errno(), f"process {pid}: {os.strerror(ctypes.get_errno())}")
        return self.allowed


def let_siblings_read() -> None:
    """Allow it to the processes of our parent, where the security module Yama keeps all others out."""
    if sys.platform == "linux":
        pr_set_ptracer = 0x59616D61
        _libc().prctl(pr_set_ptracer, ctypes.c_ulong(os.getppid()), 0, 0, 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
