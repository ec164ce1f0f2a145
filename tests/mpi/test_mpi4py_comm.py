"""A wrapped communicator does what mpi4py's does, and counts what it sends."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from collectives.ledger import pair_messages
from collectives.mpi4py_comm import CountedComm, wrap
from collectives.mpi4py_comm.operator_of import as_operator
from collectives.mpi4py_comm.point_to_point import POINT_TO_POINT

LOCAL = {
    "Abort", "Ack_failed", "Attach_buffer", "Call_errhandler", "Cart_map", "Compare", "Create_errhandler",
    "Create_from_group", "Create_keyval", "Delete_attr", "Detach_buffer", "Flush_buffer", "Free_keyval",
    "Get_attr", "Get_errhandler", "Get_failed", "Get_group", "Get_info", "Get_name", "Get_parent", "Get_rank",
    "Get_size", "Get_topology", "Graph_map", "Iflush_buffer", "Is_inter", "Is_intra", "Is_revoked", "Join",
    "Revoke", "Set_attr", "Set_errhandler", "Set_info", "Set_name", "f2py", "free", "fromhandle", "fromint",
    "group", "handle", "info", "is_inter", "is_intra", "is_topo", "name", "py2f", "rank", "size", "toint",
    "topology",
}  # fmt: skip
"""What sends nothing of the user's, or takes no communicator."""

RECEIVING = {
    "Improbe", "Iprobe", "Irecv", "Mprobe", "Probe", "Recv", "Recv_init",
    "improbe", "iprobe", "irecv", "mprobe", "probe", "recv",
}  # fmt: skip


@pytest.fixture
def plain() -> Iterator[MPI.Intracomm]:
    comm = MPI.COMM_WORLD.Dup()
    yield comm
    comm.Free()


@pytest.fixture
def comm(plain: MPI.Intracomm) -> CountedComm:
    return wrap(plain, time_limit=20.0)


def test_all_of_mpi4pys_methods_are_ours_or_send_nothing() -> None:
    ours = {name for kind in CountedComm.__mro__ if kind.__module__ != "mpi4py.MPI" for name in vars(kind)}
    theirs = {name for name in dir(MPI.Intracomm) if not name.startswith("__")}
    assert theirs - ours == LOCAL | RECEIVING


VECTOR = MPI.INT.Create_vector(3, 1, 2).Commit()
RESIZED = MPI.INT.Create_resized(0, 12).Commit()

SPECS: dict[str, Callable[[Any], Any]] = {
    "buffer": lambda data: data,
    "count": lambda data: [data, 6],
    "type": lambda data: [data, MPI.INT],
    "typecode": lambda data: [data, "i"],
    "count and type": lambda data: (data, 6, MPI.INT),
    "displacement": lambda data: [data, (4, 2), MPI.INT],
    "displacement apart": lambda data: [data, 4, 2, "i"],
    "gaps inside": lambda data: [data, 2, VECTOR],
    "gaps between": lambda data: [data, 2, RESIZED],
    "memoryview": lambda data: memoryview(data),
    "Fortran": lambda data: data.reshape(3, 4).T,
    "bytes": lambda data: [data.view(np.uint8), 6, MPI.INT],
}


@pytest.mark.parametrize("root", [0, -1])
@pytest.mark.parametrize("spec", SPECS)
def test_a_specification_means_what_it_means_to_mpi4py(comm, plain, spec: str, root: int) -> None:
    found = []
    for each in (plain, comm):
        data = np.arange(12, dtype=np.intc) + (1000 if each.rank == root % each.size else -1)
        each.Bcast(SPECS[spec](data), root=root % each.size)
        found.append(data)
    np.testing.assert_array_equal(*found)


BAD: dict[str, Callable[[Any], Any]] = {
    "no buffer": lambda comm: comm.Bcast(3),
    "no such code": lambda comm: comm.Bcast([np.zeros(3), "zz"]),
    "too many items": lambda comm: comm.Bcast([np.zeros(3), 1, 2, MPI.INT, 4]),
    "not contiguous": lambda comm: comm.Bcast(np.zeros((3, 3))[:, 1]),
    "of text": lambda comm: comm.Bcast(np.zeros(3, "S4")),
    "read-only": lambda comm: comm.Allgather(b"abc", b"abc"),
    "negative count": lambda comm: comm.Bcast([np.zeros(3), -1]),
    "negative displacement": lambda comm: comm.Bcast([np.zeros(3), 1, -1, MPI.DOUBLE]),
    "displaced beyond": lambda comm: comm.Bcast([np.zeros(3), 1, 7, MPI.DOUBLE]),
    "None with a count": lambda comm: comm.Bcast([None, 2, MPI.INT]),
    "no whole elements": lambda comm: comm.Bcast([np.zeros(3, np.uint8), MPI.INT]),
    "null type": lambda comm: comm.Bcast([np.zeros(3), MPI.DATATYPE_NULL]),
    "not committed": lambda comm: comm.Bcast([np.zeros(3), MPI.DOUBLE.Create_vector(1, 1, 1)]),
    "root": lambda comm: comm.Gather(np.zeros(3), np.zeros(3), root=7),
    "negative root": lambda comm: comm.bcast(None, root=-5),
    "operator for another type": lambda comm: comm.Allreduce(np.zeros(3), np.zeros(3), MPI.BAND),
    "counts that differ": lambda comm: comm.Allreduce(np.zeros(3), np.zeros(4)),
    "types that differ": lambda comm: comm.Scan(np.zeros(3), np.zeros(3, np.int64)),
    "sum of counts": lambda comm: comm.Reduce_scatter(np.zeros(3), np.zeros(3), [2]),
    "counts in place": lambda comm: comm.Reduce_scatter(MPI.IN_PLACE, np.zeros(3)),
    "too many counts": lambda comm: comm.Allgatherv(np.zeros(3), [np.zeros(3), [1, 2]]),
    "too few objects": lambda comm: comm.scatter([]),
}


def raised(call: Callable[[Any], Any], comm: MPI.Intracomm) -> Exception | None:
    try:
        call(comm)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("fault", BAD)
def test_bad_input_raises_what_it_raises_in_mpi4py(fault: str) -> None:
    plain = MPI.Intracomm(MPI.COMM_SELF)
    expected, found = raised(BAD[fault], plain), raised(BAD[fault], wrap(plain))
    assert type(found) is type(expected) is not type(None)
    if isinstance(expected, MPI.Exception):
        assert isinstance(found, MPI.Exception)
        assert found.Get_error_class() == expected.Get_error_class()


def test_what_mpi_forbids_and_some_libraries_let_pass_is_refused() -> None:
    data = np.zeros(3)
    for call, fault in (
        (lambda comm: comm.Allgather(data, np.zeros(2)), MPI.ERR_TRUNCATE),
        (lambda comm: comm.Allreduce(data, data), MPI.ERR_BUFFER),
    ):
        found = raised(call, wrap(MPI.COMM_SELF))
        assert isinstance(found, MPI.Exception)
        assert found.Get_error_class() == fault


def test_a_freed_communicator_raises_what_it_raises_in_mpi4py(comm) -> None:
    made = comm.Dup()
    made.Free()
    for call in (made.Barrier, made.barrier, made.Ibarrier):
        with pytest.raises(MPI.Exception) as found:
            call()
        assert found.value.Get_error_class() == MPI.ERR_COMM
    comm.Barrier()


def multiply(left: Any, right: Any, datatype: MPI.Datatype) -> None:
    """2 x 2 matrices: associative, and not commutative."""
    one, other = (np.frombuffer(buffer, np.int64).reshape(-1, 2, 2) for buffer in (left, right))
    other[:] = one @ other


def test_operators_that_do_not_commute_keep_rank_order(comm) -> None:
    matrix = MPI.INT64_T.Create_contiguous(4).Commit()
    op = MPI.Op.Create(multiply, commute=False)
    factors = np.random.default_rng(0).integers(-2, 3, (comm.size, comm.size, 2, 2))
    own, result = factors[comm.rank].copy(), np.zeros((comm.size, 2, 2), np.int64)
    products = [factors[0]]
    for factor in factors[1:]:
        products.append(products[-1] @ factor)

    comm.Allreduce([own, matrix], [result, matrix], op)
    np.testing.assert_array_equal(result, products[-1])
    comm.Reduce([own, matrix], [result, matrix], op, root=comm.size - 1)
    np.testing.assert_array_equal(result, products[-1])
    comm.Scan([own, matrix], [result, matrix], op)
    np.testing.assert_array_equal(result, products[comm.rank])
    comm.Reduce_scatter_block([own, matrix], [result[:1], matrix], op)
    np.testing.assert_array_equal(result[0], products[-1][comm.rank])
    result[:] = 7
    comm.Exscan([own, matrix], [result, matrix], op)
    np.testing.assert_array_equal(result, products[comm.rank - 1] if comm.rank else 7)
    op.Free()


def test_the_largest_is_found_with_its_place_among_elements_with_gaps(comm) -> None:
    pairs = np.dtype([("value", "d"), ("place", "i"), ("gap", "i")])
    own, found = np.zeros(5, pairs), np.full(5, -1).astype(pairs)
    own["value"] = [(comm.rank * step) % comm.size for step in range(5)]
    own["place"] = comm.rank
    comm.Allreduce([own, MPI.DOUBLE_INT], [found, MPI.DOUBLE_INT], MPI.MAXLOC)
    for step in range(5):
        values = [(rank * step) % comm.size for rank in range(comm.size)]
        assert (found["value"][step], found["place"][step]) == (max(values), values.index(max(values)))
    assert set(found["gap"]) == {-1}


def test_an_element_that_was_cut_in_two_is_not_reduced() -> None:
    part = np.zeros(12, np.uint8)
    with pytest.raises(ValueError, match="12 bytes are no whole elements of 8 bytes"):
        as_operator(MPI.SUM, MPI.DOUBLE).combine(part, part, out=part)


@pytest.mark.parametrize("wait", ["Waitall", "Waitany", "Testall", "Testany", "Wait", "Test"])
def test_mpis_own_waits_end_when_the_collectives_are_done(comm, wait: str) -> None:
    results = [np.zeros(100) for _ in range(3)]
    requests: list[MPI.Request] = [comm.Iallreduce(np.full(100, k + 1.0), results[k]) for k in range(3)]
    if comm.rank % 2:
        requests.reverse()
    if wait == "Waitall":
        MPI.Request.Waitall(requests)
    elif wait == "Waitany":
        assert {MPI.Request.Waitany(requests) for _ in range(3)} == {0, 1, 2}
    elif wait == "Testall":
        while not MPI.Request.Testall(requests):
            pass
    elif wait == "Testany":
        seen = set()
        while len(seen) < 3:
            place, flag = MPI.Request.Testany(requests)
            if flag and place != MPI.UNDEFINED:
                seen.add(place)
    elif wait == "Wait":
        for request in requests:
            request.Wait()
    else:
        for request in requests:
            while not request.Test():
                pass
    assert all(request == MPI.REQUEST_NULL for request in requests)
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, (k + 1.0) * comm.size)


def test_a_collective_in_flight_goes_on_while_its_rank_is_in_another_call_of_mpis(comm, plain) -> None:
    result = np.zeros(10)
    request = comm.Iallreduce(np.ones(10), result)
    if comm.rank == 0:
        request.Wait()  # needs the others, who are not in a call of ours
    plain.Barrier()
    request.Wait()
    assert set(result) == {comm.size}


def test_a_collective_on_one_communicator_goes_on_while_its_rank_waits_on_another(comm) -> None:
    other = comm.Dup()
    request = comm.Ibarrier()
    if comm.rank == 0:
        request.Wait()
    other.Barrier()
    request.Wait()
    other.Free()


@pytest.mark.parametrize("start", ["Start", "Startall"])
@pytest.mark.parametrize("wait", ["Wait", "Waitall"])
def test_a_persistent_collective_is_started_often_by_any_means(comm, start: str, wait: str) -> None:
    data, results = np.zeros(4), [np.zeros(4), np.zeros(4)]
    gaps = np.zeros(8)
    every_other = MPI.DOUBLE.Create_vector(4, 1, 2).Commit()
    requests = [comm.Allreduce_init(data, results[0]), comm.Bcast_init([gaps, 1, every_other])]
    for iteration in range(3):
        data[:] = iteration
        gaps[:] = iteration if comm.rank == 0 else -1
        if start == "Startall":
            MPI.Prequest.Startall(requests)
        else:
            for request in requests:
                request.Start()
        if wait == "Waitall":
            MPI.Request.Waitall(requests)
        else:
            for request in requests:
                request.Wait()
        assert set(results[0]) == {iteration * comm.size}
        assert set(gaps[::2]) == {iteration}
        assert set(gaps[1::2]) == {iteration if comm.rank == 0 else -1}
    for request in requests:
        request.Free()
    every_other.Free()


def test_the_users_memory_is_let_go_of_when_a_call_is_over(comm) -> None:
    gc.disable()
    try:
        arrays = [np.ones(3) for _ in range(6)]
        comm.Allreduce(*arrays[:2])
        comm.Iallreduce(*arrays[2:4]).Wait()
        request = comm.Allreduce_init(*arrays[4:])
        request.Start()
        request.Wait()
        request.Free()
        del request
        held = [weakref.ref(array) for array in arrays]
        arrays.clear()
        assert [array() is None for array in held] == [True] * 6
    finally:
        gc.enable()


@pytest.mark.ranks(min=2)
def test_a_message_that_is_too_long_raises_what_it_raises_in_mpi4py(comm) -> None:
    for await_it in (
        lambda pair, data: pair.Bcast(data),
        lambda pair, data: pair.Ibcast(data).Wait(),
    ):
        pair = comm.Split(0 if comm.rank < 2 else MPI.UNDEFINED)
        if comm.rank == 0:
            await_it(pair, np.ones(5))
        elif comm.rank == 1:
            found = raised(lambda pair: await_it(pair, np.ones(3)), pair)  # noqa: B023
            assert isinstance(found, MPI.Exception)
            assert found.Get_error_class() == MPI.ERR_TRUNCATE


@pytest.mark.ranks(min=2)
def test_a_collective_that_fails_under_mpis_own_wait_says_so_on_stderr(comm, capsys) -> None:
    pair = comm.Split(0 if comm.rank < 2 else MPI.UNDEFINED)
    if comm.rank < 2:
        with suppress(MPI.Exception):  # Open MPI does not always raise what its Waitall has met
            MPI.Request.Waitall([pair.Ibcast(np.ones(5 - comm.rank))])
    if comm.rank == 1:
        assert "rank 1: binomial broadcast #0 failed: " in capsys.readouterr().err


def test_without_thread_multiple_a_nonblocking_collective_says_what_it_needs(comm, monkeypatch) -> None:
    monkeypatch.setattr(MPI, "Query_thread", lambda: MPI.THREAD_SERIALIZED)
    with pytest.raises(RuntimeError, match="needs MPI_THREAD_MULTIPLE, and MPI provides THREAD_SERIALIZED"):
        comm.Ibarrier()
    comm.Barrier()


def test_communicators_made_from_a_wrapped_one_count_into_its_ledger(comm) -> None:
    group = comm.Get_group()
    made = [
        comm.Dup(), comm.Clone(), comm.Split(comm.rank % 2), comm.Split_type(MPI.COMM_TYPE_SHARED),
        comm.Create(group), comm.Create_group(group), comm.Dup().Split(0, -comm.rank),
    ]  # fmt: skip
    for one in made:
        assert type(one) is CountedComm
        assert one.allreduce(1) == one.size
        assert one.ledger is comm.ledger
    assert comm.Split(MPI.UNDEFINED) == MPI.COMM_NULL
    assert comm.not_counted() == {}
    messages = pair_messages(comm.allgather(comm.ledger.entries))
    assert len(messages) > 0 or comm.size == 1
    group.Free()


def test_what_is_sent_is_counted_to_the_byte_and_by_the_line_that_sent_it(comm) -> None:
    comm.Iallgatherv(np.ones(comm.rank), [np.empty(sum(range(comm.size))), range(comm.size)]).Wait()
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(np.ones(5, np.int32), right, recvbuf=np.empty(5, np.int32), source=left)
    request = comm.isend("text", right)
    assert comm.recv(source=left) == "text"
    request.wait()
    comm.Send(np.ones(7), MPI.PROC_NULL)
    again = comm.Send_init(np.ones(3), right)
    for _ in range(2):
        again.Start()
        comm.Recv(np.empty(3), left)
        again.Wait()
    again.Free()

    sent: Counter[Any] = Counter()
    for entry in comm.ledger.entries:
        assert entry.origin.call.label.phase.rpartition(":")[0] == __file__
        for peer, num_bytes in entry.sends:
            sent[entry.origin.call.collective, entry.origin.call.algorithm, peer] += num_bytes
    expected = Counter(
        {
            (POINT_TO_POINT, "Sendrecv", right): 20,
            (POINT_TO_POINT, "isend", right): len(MPI.pickle.dumps("text")),
            (POINT_TO_POINT, "Send_init", right): 48,
        }
    )
    for peer in set(range(comm.size)) - {comm.rank}:
        expected["all_gather", "direct", peer] = 8 * comm.rank
    assert sent == expected


def test_what_goes_past_the_ledger_is_noted(comm) -> None:
    grid = comm.Create_cart([comm.size])
    assert (type(grid), comm.not_counted()) == (MPI.Cartcomm, {"Create_cart": 1})
    grid.Free()


def test_elements_are_never_cut_in_two_however_many_there_are(comm) -> None:
    for count in (*range(comm.size + 2), 11):
        mine, sums = np.full(count, comm.rank + 1.0), np.empty(count)
        for collective, last in (("Allreduce", comm.size), ("Scan", comm.rank + 1), ("Exscan", comm.rank)):
            getattr(comm, collective)(mine, sums)
            assert last == 0 or sums.tolist() == [sum(range(1, last + 1))] * count
        comm.Reduce(mine, sums if comm.rank == 0 else None)
        assert comm.rank or sums.tolist() == [sum(range(1, comm.size + 1))] * count
        comm.Bcast(sums)
        assert sums.tolist() == [sum(range(1, comm.size + 1))] * count
