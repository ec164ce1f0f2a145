"""The measurement itself: every algorithm of a collective side by side, size by size."""

from collections.abc import Callable, Iterator
from statistics import median

from collectives.bench.contender import Contender, our_contender
from collectives.bench.copy_limit import beyond_cache, copy_bandwidth
from collectives.bench.figures import Figures, bandwidths, p99, ratio_of_pairs
from collectives.bench.measure import Samples, measure, meeting
from collectives.bench.settings import MPI, Settings
from collectives.bench.subjects import SUBJECTS, Subject
from collectives.bench.trials import Trial
from collectives.bench.values import Values
from collectives.communicator import Communicator
from collectives.operators import find_operator
from collectives.promises import COLLECTIVES
from collectives.transports.base import Transport


class Bench:
    """One rank's part; every rank iterates over ``lines`` of the same collectives."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        self.settings, self.transport = settings, transport
        self.comm = Communicator(
            transport,
            time_limit=settings.time_limit,
            check=settings.check,
            chunk_bytes=settings.chunk_bytes,
        )
        self.meet = meeting(Communicator(transport, time_limit=settings.time_limit, check=False))
        self.values = Values(transport.world_size, settings.dtype, find_operator(settings.operator))
        self.mpi_contender = self._mpi() if MPI in settings.algorithms else None
        self.copied_bytes = beyond_cache()
        self.copies_a_second = copy_bandwidth(transport, self.meet, self.copied_bytes)

    def lines(self, collective: str) -> Iterator[list[Figures]]:
        """For each size and algorithm, in this order, its figures: one for each placement."""
        subject = SUBJECTS[collective]
        itemsize, world_size = self.values.dtype.itemsize, self.transport.world_size
        for count in subject.counts(self.settings.sizes, itemsize, world_size):
            placed = [self._at(subject, placement, count) for placement in subject.placements]
            yield from map(list, zip(*placed, strict=True))

    def _at(self, subject: Subject, placement: str, count: int) -> list[Figures]:
        """All contenders at one size in one placement."""
        trial = subject.placements[placement](self.values, self.transport.rank, count)
        trial = trial.moved(self.transport.empty)
        contenders = self._contenders(subject.collective, trial)
        samples = measure(
            contenders, self.transport, self.meet, rounds=self.settings.rounds, warmup=self.settings.warmup
        )
        mpi = next((found for one, found in zip(contenders, samples, strict=True) if one.name == MPI), None)
        return [
            self._figures(subject, placement, count, one, found, mpi)
            for one, found in zip(contenders, samples, strict=True)
        ]

    def _contenders(self, collective: str, trial: Trial) -> list[Contender]:
        operator = self.settings.operator
        found = [
            our_contender(self.comm, collective, trial, operator, name, algorithm)
            for name, algorithm in self.settings.ours(collective, self.transport.world_size)
        ]
        return found + ([self.mpi_contender(collective, trial, operator)] if self.mpi_contender else [])

    def _figures(
        self,
        subject: Subject,
        placement: str,
        count: int,
        one: Contender,
        samples: Samples,
        mpi: Samples | None,
    ) -> Figures:
        world_size = self.transport.world_size
        num_bytes = subject.num_bytes(count, self.values.dtype.itemsize, world_size)
        seconds = median(samples.seconds)
        algorithm_bandwidth, bus_bandwidth = bandwidths(num_bytes, seconds, subject.bus_factor(world_size))
        return Figures(
            collective=subject.collective,
            placement=placement,
            num_bytes=num_bytes,
            count=count,
            dtype=self.settings.dtype,
            operator=self.settings.operator if COLLECTIVES[subject.collective].reduces else None,
            algorithm=one.name,
            ran=one.ran,
            seconds=seconds,
            seconds_p99=p99(samples.seconds),
            algorithm_bandwidth=algorithm_bandwidth,
            bus_bandwidth=bus_bandwidth,
            of_copy_limit=bus_bandwidth / self.copies_a_second,
            over_mpi=None if mpi is None else ratio_of_pairs(samples.seconds, mpi.seconds),
            wrong=samples.wrong,
            sent=samples.sent,
        )

    def _mpi(self) -> Callable[[str, Trial, str], Contender]:
        from mpi4py import MPI as mpi  # noqa: N811 - no class, and needed over MPI alone

        from collectives.bench.mpi_calls import mpi_contender

        comm = mpi.COMM_WORLD.Dup()  # ours meet no message of it
        return lambda collective, trial, operator: mpi_contender(comm, collective, trial, operator)
