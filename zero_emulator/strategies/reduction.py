"""A layer's reduction, from what has added up to the rank's shard, which may be on the host."""

from collections.abc import Callable
from functools import partial

from collectives.work import Work
from zero_emulator.dtypes import add_into
from zero_emulator.host import Host
from zero_emulator.layer_params import LayerParams
from zero_emulator.layout import Array
from zero_emulator.offload import Transfer


class Reduction:
    """A reduce-scatter in flight, in place in ``wire``, whose block is the shard or is added to it.

    ``users`` are to be finished in turn, by name: before the last one is, ``wire`` must not be written to,
    and after it, nothing here holds it.
    """

    def __init__(self, name: str, work: Work, wire: Array, params: LayerParams, *, replace: bool) -> None:
        self.name, self.work, self.params, self.replace = name, work, params, replace
        self.wire: Array | None = wire

    @property
    def users(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        return (
            (f"the reduce_scatter of {self.name}", self.finish_ring),
            (f"the sum of {self.name}", self.finish),
        )

    def go_on(self) -> None:
        """Begin what comes after the ring, if that is over."""

    def finish_ring(self) -> None:
        self.work.wait()

    def finish(self) -> None:
        """Have the reduced block in the shard, and let go of the wire."""
        self.add(self.block)
        self.wire = None

    @property
    def block(self) -> Array:
        """This rank's block of what is reduced."""
        assert self.wire is not None, "a reduction is finished once"
        return self.wire[self.params.own]

    def add(self, block: Array) -> None:
        add_into(self.params.summed_grad, block, replace=self.replace)
        self.params.narrow_grad()


class ReductionToHost(Reduction):
    """The same for a shard on the host: the copy thread brings the block there, where it is added."""

    def __init__(
        self, name: str, work: Work, wire: Array, params: LayerParams, *, replace: bool, host: Host
    ) -> None:
        super().__init__(name, work, wire, params, replace=replace)
        self.host = host
        self._arrived: Array | None = host.meter.empty("buffer", self.block.size, self.block.dtype)
        self._copy: Transfer | None = None

    def go_on(self) -> None:
        if self.work.done:
            self._start_copy()

    def finish_ring(self) -> None:
        self.work.wait()
        self._start_copy()

    def finish(self) -> None:
        assert self._copy is not None, "the ring is over"
        assert self._arrived is not None, "a reduction is finished once"
        self._copy.wait()
        self.add(self._arrived)
        self._copy = self._arrived = self.wire = None

    def _start_copy(self) -> None:
        """Start to copy the block to the host, unless that has been done."""
        if self._copy is None and self._arrived is not None:
            name = f"the gradient of {self.name}"
            self._copy = self.host.transfers.to_host(name, self.block, self._arrived)


def reduction_to(host: Host | None) -> Callable[..., Reduction]:
    """The kind of reduction for shards that are on this host, or on the device."""
    if host is None or "gradient" not in host.kinds:
        return Reduction
    return partial(ReductionToHost, host=host)
