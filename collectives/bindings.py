"""The bindings that a Communicator remembers: no more than are worth their memory."""

from collections import OrderedDict

from collectives.algorithms import Algorithm
from collectives.engine import Binding, bind

MAX_ROUNDS = 2**15
"""Of all bindings together, about 20 MB: one of many chunks takes the room of hundreds of ordinary ones."""


class Bindings:
    """What ``bind`` returns, made once for each set of arguments; those not used for longest go first."""

    def __init__(self, max_rounds: int = MAX_ROUNDS) -> None:
        self._max_rounds = max_rounds
        self._known: OrderedDict[tuple[object, ...], Binding] = OrderedDict()
        self.num_rounds = 0

    def get(
        self,
        algorithm: Algorithm,
        rank: int,
        sizes: tuple[int, ...],
        itemsize: int,
        in_place: bool,
        num_chunks: int,
    ) -> Binding:
        """The binding of one rank's plan to blocks of ``sizes`` elements of ``itemsize`` bytes."""
        key = algorithm, rank, sizes, itemsize, in_place, num_chunks
        binding = self._known.get(key)
        if binding is None:
            binding = self._known[key] = bind(algorithm, rank, sizes, itemsize, in_place, num_chunks)
            self.num_rounds += _rounds(binding)
            while self.num_rounds > self._max_rounds and len(self._known) > 1:
                self.num_rounds -= _rounds(self._known.popitem(last=False)[1])
        else:
            self._known.move_to_end(key)
        return binding


def _rounds(binding: Binding) -> int:
    return 1 + sum(map(len, binding.lanes))
