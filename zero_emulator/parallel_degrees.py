"""Over how many ranks each kind of parallelism goes, and what is left to shard over."""

from dataclasses import dataclass

OPTIONS = {"tensor": "--tensor-parallel", "pipeline": "--pipeline", "expert": "--expert"}
"""What each degree but for the ranks is called on the command line."""


@dataclass(frozen=True)
class ParallelDegrees:
    """``ranks`` in all, cut by tensor, pipeline and expert parallelism; ValueError where they do not divide.

    The sharding degree is the number of copies of the same weights, not the number of ranks. A pipeline
    stage's weights have copies only in that stage, an expert's only at the same expert position.
    """

    ranks: int
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1

    def __post_init__(self) -> None:
        cut_by = {OPTIONS[name]: getattr(self, name) for name in OPTIONS}
        for option, degree in {"--ranks": self.ranks, **cut_by}.items():
            if degree < 1:
                raise ValueError(f"{option} {degree}: give 1 or more")
        if self.ranks % self.least_ranks:
            factors = [f"{option} {degree}" for option, degree in cut_by.items() if degree > 1]
            product = f" = {self.least_ranks}" if len(factors) > 1 else ""
            raise ValueError(
                f"{self.ranks} ranks do not divide by {' x '.join(factors)}{product}: take a multiple of "
                f"{self.least_ranks} ranks"
            )

    @property
    def model_ranks(self) -> int:
        """Ranks that hold one copy of the dense weights together."""
        return self.tensor * self.pipeline

    @property
    def least_ranks(self) -> int:
        """The world is a multiple of this."""
        return self.tensor * self.pipeline * self.expert

    def copies(self, expert: bool) -> int:
        """The sharding degree of an expert's weights, or of all others."""
        return self.ranks // (self.least_ranks if expert else self.model_ranks)
