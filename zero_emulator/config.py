"""What a run is told, checked before anything starts."""

from dataclasses import dataclass
from math import isfinite

from zero_emulator.cuts import CUTS
from zero_emulator.data import Dataset
from zero_emulator.host import OFFLOADS
from zero_emulator.losses import LOSSES
from zero_emulator.padding import PADDINGS
from zero_emulator.pipeline import SCHEDULES
from zero_emulator.run_settings import UNIFORM, RunSettings
from zero_emulator.strategies import OFFLOADED, STRATEGIES
from zero_emulator.theory import CLAIMED, UPDATES


@dataclass(frozen=True)
class RunConfig(RunSettings):
    """One training run; ValueError, with the option and the way out, for settings that do not go together."""

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        self._check_layout()
        self._check_optimizer()
        self._check_offload()
        self._check_dtypes()
        self._check_experts()
        self._check_reference()

    def _check_numbers(self) -> None:
        for name, value, least in (
            ("iterations", self.iterations, 1),
            ("batch-size", self.batch_size, 1),
            ("micro-batches", self.micro_batches, 1),
            ("prefetch", self.prefetch, 0),
            ("audit-every", self.audit_every, 1),
            ("seed", self.seed, 0),
            ("pipeline", self.pipeline, 1),
            ("chunks", self.chunks, 1),
            ("expert", self.expert, 1),
        ):
            if value < least:
                raise ValueError(f"--{name} {value}: give {least} or more")
        for name, number in (("lr", self.lr), ("clip", self.clip), ("time-limit", self.time_limit)):
            if number is not None and not (number > 0 and isfinite(number)):
                raise ValueError(f"--{name} {number:g}: give a number above 0")
        for name, number in (("momentum", self.momentum), ("weight-decay", self.weight_decay)):
            if number is not None and not (number >= 0 and isfinite(number)):
                raise ValueError(f"--{name} {number:g}: give a number of 0 or more")
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"--hidden {','.join(map(str, self.hidden))}: every width must be 1 or more")

    def _check_choices(self) -> None:
        for name, choice, known in (
            ("strategy", self.strategy, STRATEGIES),
            ("loss", self.loss, LOSSES),
            ("dtype", self.dtype or "float32", UNIFORM),
            ("keep-views", self.keep_views, ("none", "last", "all")),
            ("padding", self.padding, PADDINGS),
            ("cut", self.cut, CUTS),
            ("schedule", self.schedule, SCHEDULES),
        ):
            if choice not in known:
                raise ValueError(f"--{name} {choice}: take one of {', '.join(known)}")

    def _check_layout(self) -> None:
        if self.keep_views != "none" and self.pipeline * self.chunks > 1:
            raise ValueError(
                f"--keep-views {self.keep_views} with --pipeline {self.pipeline} and --chunks {self.chunks} "
                "would keep a view for each micro-batch under way: drop it"
            )
        if self.cut == "layers" and self.padding != "none":
            raise ValueError(f"--padding {self.padding} evens out blocks, --cut layers makes none: drop one")

    def _check_optimizer(self) -> None:
        """ValueError for one that there is not, or for an option that it does not have."""
        self.make_optimizer()

    def _check_offload(self) -> None:
        for name in self.offload:
            if name not in OFFLOADS:
                raise ValueError(f"--offload {name}: take {' or '.join(OFFLOADS)}, or both")
        if "gradients" in self.offload and self.shard_size is not None:
            raise ValueError(
                f"--offload gradients with --shard-size {self.shard_size}: copies of a shard would be "
                "reduced on the host: drop one"
            )
        if "optimizer" in self.offload and UPDATES[self.optimizer].whole_matrices:
            raise ValueError(
                f"--offload optimizer: ranks would gather {self.optimizer}'s matrices on the host: take "
                "another --optimizer"
            )

    def _check_dtypes(self) -> None:
        """ValueError for dtypes that there are not, or that do not go together."""
        if self.dtype is not None and self.precision is not None:
            raise ValueError(f"--dtype {self.dtype} and --precision {self.precision}: give one of them")
        _ = self.policy  # which finds what does not go together

    def _check_experts(self) -> None:
        """ValueError for experts that there cannot be, or options of theirs without any."""
        if self.experts == 0:
            for name in ("expert", "top_k", "expert_hidden", "capacity", "balance"):
                if getattr(self, name) != getattr(RunConfig, name):
                    option = name.replace("_", "-")
                    raise ValueError(f"--{option} {getattr(self, name)} without experts: give --experts, too")
            return
        _ = self.expert_settings  # which finds what cannot be
        if self.experts % self.expert:
            raise ValueError(
                f"--experts {self.experts} do not divide by --expert {self.expert}: change either"
            )
        if self.padding != "none":
            raise ValueError(f"--padding {self.padding} of layers that ranks split: drop it, or --experts")

    def _check_reference(self) -> None:
        if self.reference is not None and self.loss != "cross_entropy":
            raise ValueError(
                f"--reference with --loss {self.loss}, whose outputs are no probabilities: take "
                "--loss cross_entropy"
            )

    @property
    def objection(self) -> str | None:
        """Why the strategy does not go with the rest of what is asked for; None if it does."""
        if self.shard_size is not None and self.strategy == "ddp":
            return f"--shard-size {self.shard_size}: ddp shards nothing: take another --strategy"
        if "gradients" in self.offload and self.strategy not in OFFLOADED:
            return f"--offload gradients: {self.strategy} keeps them whole: take {', '.join(OFFLOADED)}"
        if CLAIMED[self.strategy].reduces_runs and self.pipeline * self.chunks == 1:
            return (
                f"--strategy {self.strategy} holds two chunks' gradients, and the model is one chunk: give "
                "--pipeline or --chunks, or take zero2"
            )
        return None

    def check(self, dataset: Dataset, world_size: int) -> None:
        """ValueError if this run cannot be made with this data on so many ranks."""
        self._check_host()
        self._check_rows(dataset, world_size)  # first: ever so many micro-batches would be long to order
        shares = map(self.partition(dataset, world_size).share, range(world_size))
        held = [one for share in shares for one in share.held]
        for degree in {len(one.sharers) for one in held} | {len(one.twins) for one in held} - {1}:
            self.chosen.check(degree)

    def _check_rows(self, dataset: Dataset, world_size: int) -> None:
        """ValueError unless there are samples for a batch of micro-batches, and for every rank."""
        num_samples = len(dataset.train_x)
        if num_samples < world_size:
            raise ValueError(f"{num_samples} training samples for {world_size} ranks: take fewer ranks")
        if self.batch_size > num_samples:
            raise ValueError(
                f"--batch-size {self.batch_size} of {num_samples} samples: take {num_samples} or less"
            )
        if self.micro_batches > self.batch_size:
            raise ValueError(
                f"--micro-batches {self.micro_batches} of --batch-size {self.batch_size}: take "
                f"{self.batch_size} or less, for none to be empty"
            )

    def _check_host(self) -> None:
        """ValueError for what is said of a host that nothing is kept on."""
        streams = self.reference is not None and self.reference.on == "host"
        for name, value in (("host-memory", self.host_memory), ("link-bandwidth", self.link_bandwidth)):
            if value is not None and not self.offload and not streams:
                raise ValueError(
                    f"--{name} {value:g}: nothing is on the host: give --offload, or put a --reference there"
                )
