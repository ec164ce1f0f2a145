"""How much memory a rank holds, by kind: each array counts from its allocation to its death.

An array is watched by a weak reference. So nobody has to say that it is freed, and nobody can say so
while a view of it is still held somewhere. Counted is what a device would hold: parameters and their
states, and what passes through an iteration; and on a meter of its own what is kept on the host
instead, to be brought in slot by slot. Not counted are the data set, which stays with the host but for
the rows of a micro-batch; bookkeeping (versions, digests, the records of call checks); what audits
gather between iterations; and NumPy's own temporaries: of a piece, of one expert's rows, or of a few
numbers a row.
"""

import weakref
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from collectives.user_error import UserError
from zero_emulator.layout import Array, Shape

PERSISTENT = ("weight", "gradient", "master", "moment")
"""Kept between iterations."""

FROZEN = ("reference",)
"""Weights of a model that is not trained: on the device all the time, or for as long as they are used."""

PASSING = (
    "view",  # a gathered layer
    "accumulator",  # the gradient of a chunk of the model, which adds up micro-batches until it is reduced
    "slot",  # state of the host, on the device for as long as it is used
    "compute copy",  # of a layer whose weights are of another dtype than what is computed in
    "buffer",  # of communication: full gradients on their way, casts for the wire, what rings work in
    "scratch",  # of the optimizer
    "activation",  # outputs that backward needs, and the gradients by them
    "input",  # rows and targets of a micro-batch
)
"""Freed when they have been used."""

KINDS = PERSISTENT + FROZEN + PASSING

GRADIENTS = ("gradient", "accumulator")
"""What holds gradients that have added up: the most of them at once is counted apart."""


class Moment(NamedTuple):
    """When: what a rank is doing; all None while a run is set up."""

    iteration: int | None = None
    phase: str | None = None
    layer: int | None = None

    def __str__(self) -> str:
        if self.iteration is None:
            return "the set-up"
        layer = "" if self.layer is None else f" of layer {self.layer}"
        return f"the {self.phase}{layer} in iteration {self.iteration}"


class Peak(NamedTuple):
    """The most bytes held at once, by kind, and when that was reached first."""

    by_kind: dict[str, int]
    moment: Moment

    @property
    def total(self) -> int:
        return sum(self.by_kind.values())

    def __str__(self) -> str:
        return f"{self.total} bytes in {self.moment}: {describe_kinds(self.by_kind)}"


class DeviceMemoryError(UserError, MemoryError):
    """An allocation does not fit the device any more; the message is the ledger at that moment."""


class HostMemoryError(UserError, MemoryError):
    """The same of the host."""


ERRORS: dict[str, type[MemoryError]] = {"device": DeviceMemoryError, "host": HostMemoryError}


class Meter:
    """One rank's memory in one place: ``alive`` is by kind and in bytes, ``peak`` the most so far.

    ``most`` is of each kind the most at once, ``most_gradients`` the most bytes so far of all kinds of
    GRADIENTS together. ``at`` is the moment, set by whoever knows. ``place`` is "device" or "host", and
    ``limit`` its memory in bytes: what goes past it raises DeviceMemoryError or HostMemoryError, before
    anything is allocated, and ``advice`` says what would fit.

    Arrays are to be made and let go of on the rank's main thread: counts are not guarded by a lock.
    """

    def __init__(
        self,
        limit: int | None = None,
        advice: Callable[[], str] = lambda: "take more",
        place: str = "device",
    ) -> None:
        self.limit, self.advice, self.place, self.at = limit, advice, place, Moment()
        self._error = ERRORS[place]
        self.alive: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.peak = Peak({}, self.at)
        self.most_gradients = 0
        self._total = self._most = 0
        self._watched: dict[int, weakref.ref[Array]] = {}

    def empty(self, kind: str, shape: Shape, dtype: npt.DTypeLike) -> Array:
        """A new array whose contents are anything."""
        self._make_room(kind, shape, dtype)
        return self.track(kind, np.empty(shape, dtype))

    def zeros(self, kind: str, shape: Shape, dtype: npt.DTypeLike) -> Array:
        """A new array of zeros."""
        self._make_room(kind, shape, dtype)
        return self.track(kind, np.zeros(shape, dtype))

    def track(self, kind: str, array: Array) -> Array:
        """The array, counted from now on; it must own its memory, as views live off that of others."""
        assert kind in KINDS, f"no kind {kind!r}"
        assert array.base is None, f"a view of {array.nbytes} bytes owns none: track the array below it"
        self._check_limit(kind, array.nbytes)
        key, num_bytes = id(array), array.nbytes
        self._watched[key] = weakref.ref(array, lambda _: self._freed(key, kind, num_bytes))
        self.alive[kind] += num_bytes
        self.most[kind] = max(self.most[kind], self.alive[kind])
        if kind in GRADIENTS:
            self.most_gradients = max(self.most_gradients, sum(self.alive[one] for one in GRADIENTS))
        self._total += num_bytes
        if self._total > self._most:
            self._most = self._total
            self.peak = Peak(dict(+self.alive), self.at)  # + drops the zeros
        return array

    def _freed(self, key: int, kind: str, num_bytes: int) -> None:
        del self._watched[key]
        self.alive[kind] -= num_bytes
        self._total -= num_bytes

    def _make_room(self, kind: str, shape: Shape, dtype: npt.DTypeLike) -> None:
        size = shape if isinstance(shape, int) else prod(shape)
        self._check_limit(kind, size * np.dtype(dtype).itemsize)

    def _check_limit(self, kind: str, num_bytes: int) -> None:
        if self.limit is not None and self._total + num_bytes > self.limit:
            raise self._error(
                f"{num_bytes} bytes of {kind} do not fit in {self.at}: {self._total} of the {self.limit} of "
                f"--{self.place}-memory are taken, {describe_kinds(self.alive)}: {self.advice()}"
            )


def describe_kinds(by_kind: dict[str, int]) -> str:
    """``12 weight, 4 view``: bytes by kind, in words."""
    return ", ".join(f"{by_kind[kind]} {kind}" for kind in KINDS if by_kind.get(kind)) or "nothing"
