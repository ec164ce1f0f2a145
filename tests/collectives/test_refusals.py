"""What cannot be done is refused at the face, with the numbers and the way out, before a byte moves."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from collectives.algorithms import Algorithm, ring
from collectives.call_check import CallMismatchError
from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Ledger
from collectives.operators import Operator
from collectives.promises import ALL_GATHER, ALL_REDUCE, Collective

LEFT = Operator("left", lambda left, right, out: np.copyto(out, left), commutative=False)
NO_PROMISE = Collective("all_reduce", ALL_REDUCE.starts_with, lambda rank, size: (), reduces=True)
NOTHING = Algorithm("nothing", NO_PROMISE, lambda rank, size: iter(()))
GATHER = Algorithm("mine", ALL_GATHER, ring.all_gather)
POINT = np.dtype([("x", "f4"), ("y", "f4")])


def zeros(count: int = 4, dtype: Any = float) -> Any:
    return np.zeros(count, dtype)


def read_only() -> Any:
    array = zeros()
    array.flags.writeable = False
    return array


FOUR, OTHER, BOTH = zeros(), zeros(), zeros(8)
CALLS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "an unknown algorithm": (
        FOUR,
        OTHER,
        {"algorithm": "star"},
        "no algorithm 'star' for all_reduce: there ",
    ),
    "an algorithm in a list": (FOUR, OTHER, {"algorithm": ["ring"]}, r"no algorithm \['ring'\]"),
    "a promise of its own": (
        FOUR,
        OTHER,
        {"algorithm": NOTHING},
        "nothing all_reduce has a promise of its own",
    ),
    "another collective": (
        FOUR,
        OTHER,
        {"algorithm": GATHER},
        "mine all_gather is not an algorithm for all_r",
    ),
    "an unknown operator": (
        FOUR,
        OTHER,
        {"operator": "mean"},
        "no operator 'mean': there are sum, prod, max, ",
    ),
    "a ufunc": (FOUR, OTHER, {"operator": np.add}, "no operator <ufunc 'add'>: .* or give an Operator"),
    "an operator in a list": (FOUR, OTHER, {"operator": ["sum"]}, r"no operator \['sum'\]"),
    "an order that matters": (
        FOUR,
        OTHER,
        {"operator": LEFT},
        "ring all_reduce reorders .* 'left' does not ",
    ),
    "two dtypes": (FOUR, zeros(4, "f4"), {}, "the input is float64, the output float32"),
    "a read-only output": (FOUR, read_only(), {}, "the output is read-only"),
    "a stride": (BOTH[::2], FOUR, {}, r"the input of shape \(4,\) is not C-contiguous"),
    "a transpose": (FOUR, BOTH.reshape(2, 4).T, {}, r"the output of shape \(4, 2\) is not C-contiguous"),
    "overlapping arrays": (BOTH[:5], BOTH[3:], {}, "share memory: pass IN_PLACE"),
    "one array twice": (FOUR, FOUR, {}, "share memory: pass IN_PLACE"),
    "a masked array": (
        np.ma.masked_array(FOUR),
        OTHER,
        {},
        "the input is a MaskedArray, which has rules of its",
    ),
    "a matrix": (FOUR, OTHER.view(np.matrix), {}, "the output is a matrix, which has rules of its own"),
    "a list": ([1, 2], OTHER, {}, "the input is of type list: give a NumPy array of numbers"),
    "a number": (FOUR, 3, {}, "the output is of type int: give a NumPy array of numbers"),
    "no input": (None, OTHER, {}, "the input is of type NoneType: give a NumPy array"),
    "an output in place": (FOUR, IN_PLACE, {}, "the output is of type InPlace: give a NumPy array"),
    "another count": (FOUR, zeros(5), {}, "need 5 elements of input and 5 of output, there are 4 and 5"),
}
SIZES: dict[str, tuple[Callable[[int], Any], str]] = {
    "too many": (
        lambda size: (4,) * (size + 1),
        r"block sizes \(4, .*\) for \d ranks: one a rank, 0 or more",
    ),
    "none": (lambda size: (), r"block sizes \(\) for \d ranks: one a rank"),
    "negative": (lambda size: (-1,) * size, r"block sizes \(-1.*\) for \d ranks: one a rank, 0 or more"),
    "too large": (lambda size: (5,) * size, r"the blocks need \d+ elements of input"),
    "huge": (lambda size: (2**70,) * size, r"the blocks need \d{22,} elements of input"),
    "halves": (
        lambda size: (0.5,) * size,
        r"block sizes \(0.5.*\): give a whole number of elements for each",
    ),
    "whole floats": (lambda size: (4.0,) * size, r"block sizes \(4.0.*\): give a whole number"),
    "one number": (lambda size: 4, "block sizes 4: give a whole number of elements for each rank"),
    "a text": (lambda size: "4", "block sizes '4': give a whole number"),
    "no numbers": (lambda size: (None,) * size, r"block sizes \(None.*\): give a whole number"),
    "a table": (lambda size: np.ones((size, 2), int), "(?s)block sizes array.*: give a whole number"),
}
DTYPES: dict[str, Any] = {
    "structured": POINT,
    "datetime": "M8[s]",
    "timedelta": "m8[s]",
    "bytes": "S4",
    "text": "U4",
    "void": "V4",
    "object": object,
}


def check_refused(comm: Communicator, ledger: Ledger, message: str, call: Callable[[], Any]) -> None:
    """It is, and only by this message; no number has moved, and the next call is as good as any."""
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert not isinstance(caught.value, CallMismatchError)
    assert ledger.sent("training") == 0
    comm.all_reduce(np.zeros(4), np.zeros(4)).wait()


@pytest.mark.on_threads
@pytest.mark.few_sizes
@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_makes_no_sense_is_refused_with_the_numbers(run_metered, what: str) -> None:
    source, result, how, message = CALLS[what]

    def body(comm: Communicator, ledger: Ledger) -> None:
        check_refused(comm, ledger, message, lambda: comm.all_reduce(source, result, **how))

    run_metered(body)


@pytest.mark.on_threads
@pytest.mark.parametrize("what", SIZES)
@pytest.mark.parametrize("world_size", [1, 3])
def test_block_sizes_that_make_no_sense_are_refused_with_the_numbers(run_metered, what: str) -> None:
    sizes, message = SIZES[what]

    def body(comm: Communicator, ledger: Ledger) -> None:
        given = sizes(comm.world_size)
        check_refused(comm, ledger, message, lambda: comm.all_reduce(zeros(), zeros(), sizes=given))

    run_metered(body, chunk_bytes=1 << 20)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce", "prepare"])
@pytest.mark.parametrize("what", DTYPES)
def test_what_are_no_numbers_is_refused_on_every_rank(run_metered, what: str, collective: str) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        arrays = zeros(comm.world_size, DTYPES[what]), zeros(comm.world_size, DTYPES[what])
        first = ("all_gather",) if collective == "prepare" else ()
        message = r"the output is an array of .*: give one of numbers, such as a view of its bytes"
        check_refused(comm, ledger, message, lambda: getattr(comm, collective)(*first, *arrays))

    run_metered(body)


@pytest.mark.ranks(min=2)
def test_structured_arrays_that_differ_in_their_fields_are_not_taken_for_alike(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        field = "x" if comm.rank else "y"
        dtype = np.dtype([(field, "i4")])
        with pytest.raises(ValueError, match=rf"the output is an array of \[\('{field}', '<i4'\)\]"):
            comm.all_gather(zeros(1, dtype), zeros(comm.world_size, dtype))

    run_ranks(body)


def test_numbers_that_numpy_was_taught_are_numbers(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        found = np.empty(2, ml_dtypes.bfloat16)
        comm.all_reduce(np.ones(2, ml_dtypes.bfloat16), found).wait()
        assert found.astype(int).tolist() == [comm.world_size] * 2

    run_ranks(body)


@pytest.mark.on_threads
@pytest.mark.few_sizes
@pytest.mark.parametrize("collective", ["all_scatter", ["all_gather"], None])
def test_a_collective_that_is_none_is_not_prepared(run_ranks, collective: Any) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(
            ValueError, match=r"no collective .*: there are all_gather, reduce_scatter, all_reduce"
        ):
            comm.prepare(collective, zeros(), zeros())

    run_ranks(body)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunk_bytes": 0}, "chunks of 0 bytes: give 1 or more"),
        ({"chunk_bytes": -1}, "chunks of -1 bytes: give 1 or more"),
        ({"chunk_bytes": 2.5}, "chunks of 2.5 bytes: give 1 or more"),
        ({"time_limit": 0}, "a time limit of 0 seconds: give a number above 0"),
        ({"time_limit": -1.5}, "a time limit of -1.5 seconds"),
        ({"time_limit": float("nan")}, "a time limit of nan seconds"),
        ({"time_limit": None}, "a time limit of None seconds"),
        ({"time_limit": "60"}, "a time limit of '60' seconds"),
    ],
    ids=str,
)
@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [1, 3])
def test_settings_that_make_no_sense_are_refused(run_ranks, settings: dict[str, Any], message: str) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match=message):
            Communicator(comm.transport, **settings)

    run_ranks(body)


def test_what_is_no_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="the transport is of type str: wrap it, as in MPITransport"):
        Communicator("COMM_WORLD")  # type: ignore[arg-type]


SPLITS = [
    (-1, 0, "color -1: give a whole number from 0 to 2147483647"),
    (2**31, 0, "color 2147483648: give a whole number"),
    (2**70, 0, r"color \d{22}: give a whole number"),
    (1.0, 0, "color 1.0: give a whole number"),
    ("red", 0, "color 'red': give a whole number"),
    (0, 2**31, "key 2147483648: give a whole number from -2147483647 to"),
    (0, 0.5, "key 0.5: give a whole number"),
    (0, None, "key None: give a whole number"),
]


@pytest.mark.few_sizes
@pytest.mark.parametrize(("color", "key", "message"), SPLITS)
def test_a_split_by_what_is_no_color_is_an_error_on_all_ranks(
    run_ranks, color: Any, key: Any, message: str
) -> None:
    def body(comm: Communicator) -> None:
        odd = comm.world_size - 1
        with pytest.raises(ValueError, match=f"rank {odd} cannot split by {message}"):
            comm.split(*(color, key) if comm.rank == odd else (0, 0))
        part = comm.split(np.int64(0), key=-comm.rank)  # type: ignore[arg-type]
        assert part is not None
        assert part.rank == odd - comm.rank

    run_ranks(body)


@pytest.mark.few_sizes
def test_an_exchange_of_what_cannot_travel_is_an_error_on_all_ranks(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        odd = comm.world_size - 1
        with pytest.raises(ValueError, match=rf"rank {odd} cannot exchange a function: Can't "):
            comm.exchange((lambda: None) if comm.rank == odd else "a text")
        assert comm.exchange(comm.rank) == list(range(comm.world_size))

    run_ranks(body)
