"""The collectives on buffers, upper-case in mpi4py: each in its blocking, nonblocking and persistent form."""

from collectives.mpi4py_comm import operations, reductions
from collectives.mpi4py_comm.base import WrappedComm
from collectives.mpi4py_comm.forms import blocking, nonblocking, persistent


class BlockingCollectives(WrappedComm):
    """Those that return when they are done."""

    Barrier = blocking(operations.barrier)
    Bcast = blocking(operations.bcast)
    Gather = blocking(operations.gather)
    Gatherv = blocking(operations.gatherv)
    Scatter = blocking(operations.scatter)
    Scatterv = blocking(operations.scatterv)
    Allgather = blocking(operations.allgather)
    Allgatherv = blocking(operations.allgatherv)
    Alltoall = blocking(operations.alltoall)
    Alltoallv = blocking(operations.alltoallv)
    Alltoallw = blocking(operations.alltoallw)
    Reduce = blocking(reductions.reduce)
    Allreduce = blocking(reductions.allreduce)
    Reduce_scatter_block = blocking(reductions.reduce_scatter_block)
    Reduce_scatter = blocking(reductions.reduce_scatter)
    Scan = blocking(reductions.scan)
    Exscan = blocking(reductions.exscan)


class NonblockingCollectives(WrappedComm):
    """Those that return a request."""

    Ibarrier = nonblocking(operations.barrier)
    Ibcast = nonblocking(operations.bcast)
    Igather = nonblocking(operations.gather)
    Igatherv = nonblocking(operations.gatherv)
    Iscatter = nonblocking(operations.scatter)
    Iscatterv = nonblocking(operations.scatterv)
    Iallgather = nonblocking(operations.allgather)
    Iallgatherv = nonblocking(operations.allgatherv)
    Ialltoall = nonblocking(operations.alltoall)
    Ialltoallv = nonblocking(operations.alltoallv)
    Ialltoallw = nonblocking(operations.alltoallw)
    Ireduce = nonblocking(reductions.reduce)
    Iallreduce = nonblocking(reductions.allreduce)
    Ireduce_scatter_block = nonblocking(reductions.reduce_scatter_block)
    Ireduce_scatter = nonblocking(reductions.reduce_scatter)
    Iscan = nonblocking(reductions.scan)
    Iexscan = nonblocking(reductions.exscan)


class PersistentCollectives(WrappedComm):
    """Those that return a request to be started."""

    Barrier_init = persistent(operations.barrier)
    Bcast_init = persistent(operations.bcast)
    Gather_init = persistent(operations.gather)
    Gatherv_init = persistent(operations.gatherv)
    Scatter_init = persistent(operations.scatter)
    Scatterv_init = persistent(operations.scatterv)
    Allgather_init = persistent(operations.allgather)
    Allgatherv_init = persistent(operations.allgatherv)
    Alltoall_init = persistent(operations.alltoall)
    Alltoallv_init = persistent(operations.alltoallv)
    Alltoallw_init = persistent(operations.alltoallw)
    Reduce_init = persistent(reductions.reduce)
    Allreduce_init = persistent(reductions.allreduce)
    Reduce_scatter_block_init = persistent(reductions.reduce_scatter_block)
    Reduce_scatter_init = persistent(reductions.reduce_scatter)
    Scan_init = persistent(reductions.scan)
    Exscan_init = persistent(reductions.exscan)
