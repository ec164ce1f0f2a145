"""What a run is told, and what that amounts to: layers on ranks, dtypes, algorithms, an optimizer."""

from dataclasses import asdict, dataclass
from typing import Any

from zero_emulator.chosen import Chosen, choose
from zero_emulator.data import Dataset
from zero_emulator.experts import ExpertSettings, build_expert_mlp
from zero_emulator.frozen_reference import FrozenReference
from zero_emulator.grid import Grid
from zero_emulator.optimizers import Optimizer, make_optimizer
from zero_emulator.partition import Partition, make_partition
from zero_emulator.precision import Precision, find_precision
from zero_emulator.strategies import KeepViews, StrategyOptions

UNIFORM = {"float32": "fp32", "float64": "fp64"}
"""The policy that ``dtype`` is short for: everything in one dtype."""


@dataclass(frozen=True)
class RunSettings:
    """What a run is told, unchecked: the options of ``train``, under their names.

    ``batch_size`` is the global batch, ``hidden`` the widths of the hidden layers.
    """

    strategy: str = "zero3"
    hidden: tuple[int, ...] = (64, 32)
    iterations: int = 200
    batch_size: int = 64
    micro_batches: int = 1
    optimizer: str = "adam"
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    loss: str = "cross_entropy"
    dtype: str | None = None
    precision: str | None = None
    grad_dtype: str | None = None
    reduce_dtype: str | None = None
    param_wire_dtype: str | None = None
    seed: int = 0
    prefetch: int = 0
    keep_views: KeepViews = "none"
    clip: float | None = None
    padding: str = "none"
    cut: str = "even"
    audit_every: int = 1
    algorithm: tuple[str, ...] = ()
    time_limit: float = 60.0
    device_memory: int | None = None
    pipeline: int = 1
    chunks: int = 1
    schedule: str = "1f1b"
    expert: int = 1
    shard_size: int | None = None
    experts: int = 0
    top_k: int = 1
    expert_hidden: int | None = None
    capacity: float | None = None
    balance: float = 0.01
    reference: FrozenReference | None = None
    offload: tuple[str, ...] = ()
    host_memory: int | None = None
    link_bandwidth: float | None = None

    @property
    def chosen(self) -> Chosen:
        """Which algorithm each collective of training runs on. ValueError if one cannot be found."""
        return choose(self.algorithm)

    @property
    def policy(self) -> Precision:
        """Which dtype lives where, and which goes over the wire.

        ValueError for dtypes that there are not, or that do not go together.
        """
        named = find_precision(self.precision or UNIFORM[self.dtype or "float32"])
        return named.override(
            gradient=self.grad_dtype, reduce=self.reduce_dtype, weight_wire=self.param_wire_dtype
        )

    def make_optimizer(self) -> Optimizer:
        """A new one. ValueError for a name that there is not, or for an option that it does not have."""
        return make_optimizer(
            self.optimizer, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )

    @property
    def expert_settings(self) -> ExpertSettings | None:
        """The experts behind each hidden layer; None if there are none. ValueError for what cannot be."""
        if self.experts == 0:
            return None
        return ExpertSettings(self.experts, self.top_k, self.expert_hidden, self.capacity, self.balance)

    def partition(self, dataset: Dataset, world_size: int) -> Partition:
        """The model's layers, and what each of so many ranks does of them; ValueError if that cannot be."""
        widths = (dataset.train_x.shape[1], *self.hidden, dataset.num_classes)
        layers = build_expert_mlp(widths, self.expert_settings)
        return make_partition(
            layers,
            Grid(world_size, self.pipeline, self.expert, self.shard_size),
            padding=self.padding,
            cut=self.cut,
            schedule=self.schedule,
            chunks=self.chunks,
            micro_batches=self.micro_batches,
        )

    def strategy_options(self, *, poison: bool = False) -> StrategyOptions:
        return StrategyOptions(
            self.micro_batches, self.prefetch, self.keep_views, self.clip, poison, self.chosen.algorithms
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "hidden": list(self.hidden),
            "algorithm": list(self.algorithm),
            "offload": list(self.offload),
            "lr": self.make_optimizer().lr,
            "reference": None if self.reference is None else self.reference.as_json(),
        }
