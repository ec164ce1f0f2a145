"""What is measured side by side: a call that is settled, with its arrays."""

from collections.abc import Callable
from dataclasses import dataclass

from collectives.algorithms import Algorithm
from collectives.bench.trials import Trial
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.prepared import PreparedCollective
from collectives.transports.metered import MeteredTransport


@dataclass(frozen=True)
class Contender:
    """A call under the ``name`` that was asked for; ``ran`` is the algorithm behind it.

    ``sent``: the bytes that this rank has sent in one call, counted; None where nobody can count them.
    """

    name: str
    ran: str
    run: Callable[[], object]
    trial: Trial
    sent: int | None = None


def our_contender(
    comm: Communicator, collective: str, trial: Trial, operator: str, name: str, algorithm: str | Algorithm
) -> Contender:
    """Our collective by one algorithm: prepared, and run once to count what it sends."""
    ledger = Ledger()
    counted = Communicator(
        MeteredTransport(comm.transport, ledger), time_limit=comm.time_limit, chunk_bytes=comm.chunk_bytes,
        check=False,
    )  # fmt: skip

    def prepare(on: Communicator) -> PreparedCollective:
        return on.prepare(collective, trial.input, trial.output, operator=operator, algorithm=algorithm)

    trial.reset()
    work = prepare(counted).start()
    work.wait()
    return Contender(name, work.call.algorithm, prepare(comm).run, trial, ledger.sent("training"))
