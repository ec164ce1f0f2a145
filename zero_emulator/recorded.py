"""What a run record says of traffic, read back: what it follows from, and what was counted."""

from dataclasses import dataclass

from zero_emulator.config import RunConfig
from zero_emulator.layout import FlatLayout
from zero_emulator.share import matrix_shares
from zero_emulator.theory import Sizes


@dataclass(frozen=True)
class Tensor:
    """A tensor of a layer, and the zeros behind it."""

    name: str
    shape: tuple[int, ...]
    padding: int


@dataclass(frozen=True)
class RankTraffic:
    """Bytes that one rank counted in one iteration: for training by collective and by phase, and the rest."""

    rank: int
    sent: dict[str, int]
    received: dict[str, int]
    sent_by_phase: dict[str, int]
    control_sent: int
    audit_sent: int


@dataclass(frozen=True)
class Iteration:
    """One iteration, a ``traffic`` a rank."""

    iteration: int
    skipped: bool
    traffic: tuple[RankTraffic, ...]


@dataclass(frozen=True)
class Totals:
    """Bytes that one rank sent from start to end."""

    training: int
    control: int
    audit: int


@dataclass(frozen=True)
class Recorded:
    """One run. ValueError if its parts contradict each other."""

    config: RunConfig
    num_params: int
    world_size: int
    layers: tuple[tuple[Tensor, ...], ...]
    block_sizes: tuple[Sizes, ...]
    iterations: tuple[Iteration, ...]
    gradient_audit: bool
    totals: tuple[Totals, ...]

    @property
    def beside_data(self) -> str:
        """What the run did beside sharding all layers over all ranks, as its options; empty if nothing."""
        config = self.config
        options = {
            "--pipeline": config.pipeline if config.pipeline > 1 else None,
            "--experts": config.experts or None,
            "--shard-size": config.shard_size if config.shard_size != self.world_size else None,
        }
        return ", ".join(f"{option} {value}" for option, value in options.items() if value is not None)

    @property
    def layouts(self) -> tuple[FlatLayout, ...]:
        """Where the tensors of each layer lie."""
        return tuple(
            FlatLayout(
                tuple((tensor.name, tensor.shape) for tensor in layer),
                tuple(tensor.padding for tensor in layer),
            )
            for layer in self.layers
        )

    @property
    def matrices(self) -> tuple[Sizes, ...]:
        """The shares of every matrix: its elements in each rank's block."""
        return matrix_shares(self.layouts, self.block_sizes)

    def __post_init__(self) -> None:
        self._check_layers()
        self._check_iterations()
        if len(self.totals) != self.world_size:
            raise ValueError(f"world_size is {self.world_size}, and there are {len(self.totals)} totals")

    def _check_layers(self) -> None:
        if not self.layers or len(self.block_sizes) != len(self.layers):
            raise ValueError(f"{len(self.layers)} layers have {len(self.block_sizes)} lists of block_sizes")
        for at, (layout, sizes) in enumerate(zip(self.layouts, self.block_sizes, strict=True)):
            if self.beside_data:
                break  # a block for each of the sharers, who are not all ranks, or of some experts alone
            if len(sizes) != self.world_size or sum(sizes) != layout.size or min(sizes) < 0:
                raise ValueError(
                    f"block_sizes[{at}] {list(sizes)!s:.60} are not {self.world_size} blocks of the "
                    f"{layout.size} elements of that layer"
                )
        num_params = sum(layout.num_params for layout in self.layouts)
        if self.num_params != num_params or num_params < 1:
            raise ValueError(f"num_params is {self.num_params}, the layers have {num_params}")

    def _check_iterations(self) -> None:
        if len(self.iterations) != self.config.iterations:
            raise ValueError(f"{self.config.iterations} iterations are {len(self.iterations)} in the list")
        for number, one in enumerate(self.iterations, start=1):
            ranks = [traffic.rank for traffic in one.traffic]
            if one.iteration != number:
                raise ValueError(f"iteration {one.iteration} stands where iteration {number} should")
            if len(ranks) != self.world_size or ranks != [*range(self.world_size)]:
                raise ValueError(
                    f"world_size is {self.world_size}, and iteration {number} has the traffic of ranks "
                    f"{', '.join(map(str, ranks)) or 'none'}"
                )
