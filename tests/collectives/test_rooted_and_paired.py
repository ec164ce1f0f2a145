"""Collectives with a root, by pair, of prefixes and of nothing: exact results, whoever the root is."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.communicator import IN_PLACE, Communicator
from collectives.operators import Operator
from collectives.transports.delaying import DelayingTransport

Array = npt.NDArray[np.int64]


def table(collective: str, world_size: int) -> Iterator[Algorithm]:
    return (
        one
        for one in ALGORITHMS.values()
        if one.collective.name == collective and one.limit.allows(world_size)
    )


def numbers(size: int, rank: int) -> Array:
    return np.arange(size) * 3 + 100 * rank


def test_a_broadcast_gives_the_roots_numbers_to_all(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        for root, size in ((0, 13), (world_size - 1, 3), (world_size // 2, 0)):
            for algorithm in table("broadcast", world_size):
                buffer = numbers(size, root) if comm.rank == root else np.full(size, -1)
                comm.broadcast(buffer, root=root, algorithm=algorithm).wait()
                assert buffer.tolist() == numbers(size, root).tolist()

    run_ranks(body, wrap=DelayingTransport, chunk_bytes=8)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_a_reduce_leaves_the_sum_on_the_root_alone(run_ranks, world_size: int, in_place: bool) -> None:
    def body(comm: Communicator) -> None:
        for root, size in ((0, 13), (world_size - 1, 3), (world_size // 2, 0)):
            for algorithm in table("reduce", world_size):
                given = numbers(size, comm.rank)
                output = given.copy() if comm.rank == root else None
                argument: Any = IN_PLACE if in_place and comm.rank == root else given
                comm.reduce(argument, output, root=root, algorithm=algorithm).wait()
                assert given.tolist() == numbers(size, comm.rank).tolist()
                if output is not None:
                    assert output.tolist() == sum(numbers(size, rank) for rank in range(world_size)).tolist()

    run_ranks(body, wrap=DelayingTransport)


def uneven(world_size: int) -> tuple[int, ...]:
    return tuple((2 * rank) % 3 for rank in range(world_size))


def known(sizes: tuple[int, ...], algorithm: Algorithm, rank: int, root: int) -> tuple[int | None, ...]:
    """The sizes as far as MPI's callers know them: all on the root, elsewhere a rank's own."""
    if not algorithm.own_sizes or rank == root:
        return sizes
    return tuple(size if one == rank else None for one, size in enumerate(sizes))


def test_a_gather_puts_blocks_side_by_side_and_a_scatter_takes_them_apart(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        rank = comm.rank
        for root, sizes in ((0, (2,) * world_size), (world_size - 1, uneven(world_size))):
            blocks = [numbers(size, one) for one, size in enumerate(sizes)]
            together, own = np.concatenate(blocks), slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
            for algorithm in table("gather", world_size):
                given = known(sizes, algorithm, rank, root)
                output = np.full(len(together), -1) if rank == root else None
                comm.gather(blocks[rank], output, root=root, sizes=given, algorithm=algorithm).wait()
                assert output is None or output.tolist() == together.tolist()
                if output is not None:
                    output[: own.start], output[own.stop :] = -1, -1
                argument: Any = blocks[rank] if output is None else IN_PLACE
                comm.gather(argument, output, root=root, sizes=given, algorithm=algorithm).wait()
                assert output is None or output.tolist() == together.tolist()
            for algorithm in table("scatter", world_size):
                given = known(sizes, algorithm, rank, root)
                source = together.copy() if rank == root else None
                block = np.full(sizes[rank], -1)
                comm.scatter(source, block, root=root, sizes=given, algorithm=algorithm).wait()
                assert block.tolist() == blocks[rank].tolist()
                block = block * 0 if source is None else source
                argument = None if source is None else IN_PLACE
                comm.scatter(argument, block, root=root, sizes=given, algorithm=algorithm).wait()
                assert (block if source is None else block[own]).tolist() == blocks[rank].tolist()
                assert source is None or source.tolist() == together.tolist()

    run_ranks(body, wrap=DelayingTransport)


@pytest.mark.parametrize("cut", ["equal", "uneven", "one alone"])
def test_an_all_to_all_brings_every_block_to_its_place(run_ranks, world_size: int, cut: str) -> None:
    ranks = range(world_size)
    size_of = {
        "equal": lambda s, d: 3,
        "uneven": lambda s, d: (3 * s + d) % 4,
        "one alone": lambda s, d: 5 if (s, d) == (world_size - 1, 0) else 0,
    }[cut]
    sizes = tuple(tuple(size_of(s, d) for d in ranks) for s in ranks)
    blocks = [[numbers(sizes[s][d], 10 * s + d) for d in ranks] for s in ranks]

    def body(comm: Communicator) -> None:
        rank = comm.rank
        given, expected = np.concatenate(blocks[rank]), np.concatenate([blocks[s][rank] for s in ranks])
        own = tuple(tuple(sizes[s][d] if rank in (s, d) else None for d in ranks) for s in ranks)
        for algorithm in table("all_to_all", world_size):
            output = np.full(len(expected), -1)
            how: Any = own if algorithm.own_sizes else sizes
            comm.all_to_all(given, output, sizes=how, algorithm=algorithm).wait()
            assert output.tolist() == expected.tolist()
            if cut == "equal":
                output[:] = given
                comm.all_to_all(IN_PLACE, output, algorithm=algorithm).wait()
                assert output.tolist() == expected.tolist()
                again = comm.prepare("all_to_all", IN_PLACE, output, algorithm=algorithm)
                for _ in range(2):
                    output[:] = given
                    again.run()
                    assert output.tolist() == expected.tolist()

    run_ranks(body, wrap=DelayingTransport, check=False)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_a_scan_reduces_what_is_up_to_a_rank_and_an_exscan_what_is_below(
    run_ranks, world_size: int, in_place: bool
) -> None:
    def body(comm: Communicator) -> None:
        for size in (0, 1, 13):
            given = np.full(size, comm.rank + 1)
            for name, last in (("scan", comm.rank + 1), ("exscan", comm.rank)):
                output = given.copy() if in_place else np.full(size, -1)
                argument: Any = IN_PLACE if in_place else given
                getattr(comm, name)(argument, output, operator="sum").wait()
                if last:
                    assert output.tolist() == [sum(range(1, last + 1))] * size
                elif not in_place:
                    assert output.tolist() == [-1] * size
                assert given.tolist() == [comm.rank + 1] * size

    run_ranks(body, wrap=DelayingTransport, chunk_bytes=16)


@pytest.mark.parametrize("collective", ["reduce", "scan", "exscan"])
def test_operands_that_do_not_commute_stand_in_rank_order(
    run_ranks, world_size: int, collective: str
) -> None:
    """Concatenation is associative: numbers are written side by side, as pairs of value and length."""

    def join(left: Array, right: Array, /, *, out: Array) -> None:
        one, two = left.reshape(-1, 2), right.reshape(-1, 2)
        joined = np.stack((one[:, 0] * 10 ** two[:, 1] + two[:, 0], one[:, 1] + two[:, 1]), axis=1)
        out[...] = joined.reshape(-1)

    joins = Operator("join", join, commutative=False)

    def body(comm: Communicator) -> None:
        for root in {0, world_size - 1}:
            for algorithm in table(collective, world_size):
                sizes = tuple(2 * (rank % 3) for rank in range(world_size))
                given, output = np.tile((comm.rank + 1, 1), sum(sizes) // 2), np.zeros(sum(sizes), np.int64)
                how: dict[str, Any] = {"sizes": sizes, "operator": joins, "algorithm": algorithm}
                call = comm.prepare
                if algorithm.commutative_only:
                    with pytest.raises(ValueError, match="'join' does not commute: take ordered_binomial"):
                        call(collective, given, output, root=root, **how)
                    continue
                call(collective, given, output, root=root, **how).run()
                last = {"reduce": world_size, "scan": comm.rank + 1, "exscan": comm.rank}[collective]
                if last and (collective != "reduce" or comm.rank == root):
                    digits = int("".join(str(rank + 1) for rank in range(last)))
                    assert output.tolist() == [digits, last] * (sum(sizes) // 2)

    run_ranks(body, check=False)


@pytest.mark.ranks(min=2)
def test_no_rank_leaves_a_barrier_before_all_have_come(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> list[bool]:
        here = comm.rank != world_size - 1
        work = comm.barrier() if here else None
        left_early = [work.poll() for _ in range(20)] if work else []
        comm.exchange(None)  # until now the last rank has not come
        if work is None:
            work = comm.barrier()
        work.wait()
        return left_early

    assert not any(left for early in run_ranks(body) for left in early)


@pytest.mark.ranks(min=2)
def test_a_size_that_a_rank_is_not_told_is_refused_where_it_must_know_it(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        sizes = tuple(2 if rank == comm.rank else None for rank in range(world_size))
        output = np.empty(2 * world_size) if comm.rank == 0 else None
        unknown = 1 if comm.rank == 0 else 0
        message = f"^binomial gather needs .* all blocks, and that of {unknown} is None: take direct$"
        with pytest.raises(ValueError, match=message):
            comm.gather(np.empty(2), output, sizes=sizes)

    run_ranks(body)


@pytest.mark.parametrize(("root", "told"), [(-1, "-1"), (8, "8"), (1.0, "1.0"), (None, "None")])
def test_a_root_that_is_no_rank_is_refused(run_ranks, world_size: int, root: Any, told: str) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match=f"^broadcast with root {told} on {world_size} ranks: na"):
            comm.broadcast(np.empty(2), root=root)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_roots_that_differ_are_an_error_on_all_ranks(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match=r"rank 0 calls broadcast\(float64, binomial, root 0\)"):
            comm.broadcast(np.empty(2), root=min(comm.rank, 1)).wait()

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_what_does_not_split_into_equal_blocks_is_refused_with_the_numbers(
    run_ranks, world_size: int
) -> None:
    def body(comm: Communicator) -> None:
        given, words = (
            np.empty(world_size + 1),
            f"^{world_size + 1} elements are not {world_size} equal blocks",
        )
        with pytest.raises(ValueError, match=words):
            comm.all_to_all(given, given.copy())

    run_ranks(body)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def test_what_is_only_read_may_be_read_only(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        is_root = comm.rank == 0
        given = read_only(np.full(2 * world_size, comm.rank))
        buffer = given if is_root else np.empty_like(given)
        comm.broadcast(buffer).wait()
        assert buffer.tolist() == [0] * (2 * world_size)
        comm.reduce(given, np.empty_like(given) if is_root else None).wait()
        comm.gather(given, np.empty(2 * world_size**2, given.dtype) if is_root else None).wait()
        comm.scatter(given if is_root else None, np.empty(2, given.dtype)).wait()
        comm.exscan(given, np.empty_like(given) if comm.rank else None).wait()

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_what_is_written_may_not_be_read_only(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match="the output is read-only" if comm.rank else "rank 1 calls"):
            comm.broadcast(read_only(np.zeros(2 * world_size))).wait()

    run_ranks(body)
