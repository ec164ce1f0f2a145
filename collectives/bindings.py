"""The bindings that a Communicator remembers, of proved algorithms: no more than are worth their memory."""

from collections import OrderedDict
from weakref import WeakKeyDictionary

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.offsets import Binding, bind
from collectives.promises import Sizes
from collectives.verify import verify

MAX_ROUNDS = 2**15
"""Of all bindings together, about 20 MB: one of many chunks takes the room of hundreds of ordinary ones."""


class Bindings:
    """What ``bind`` returns, made once for each set of arguments; those not used for longest go first."""

    def __init__(self, max_rounds: int = MAX_ROUNDS) -> None:
        self._max_rounds = max_rounds
        self._known: OrderedDict[tuple[object, ...], Binding] = OrderedDict()
        self._proved: WeakKeyDictionary[Algorithm, set[int]] = WeakKeyDictionary()  # for these world sizes
        self.num_rounds = 0

    def get(
        self,
        algorithm: Algorithm,
        rank: int,
        sizes: Sizes,
        itemsize: int,
        in_place: bool,
        num_chunks: int,
    ) -> Binding:
        """The binding of one rank's plan to blocks of ``sizes`` elements of ``itemsize`` bytes.

        ScheduleError if the algorithm breaks its promise on so many ranks.
        """
        key = algorithm, rank, sizes, itemsize, in_place, num_chunks
        binding = self._known.get(key)
        if binding is None:
            self._prove(algorithm, len(sizes))
            binding = self._known[key] = bind(algorithm, rank, sizes, itemsize, in_place, num_chunks)
            self.num_rounds += _rounds(binding)
            while self.num_rounds > self._max_rounds and len(self._known) > 1:
                self.num_rounds -= _rounds(self._known.popitem(last=False)[1])
        else:
            self._known.move_to_end(key)
        return binding

    def _prove(self, algorithm: Algorithm, world_size: int) -> None:
        """Once for an algorithm of the caller's own: those of the table are proved by the tests."""
        known = ALGORITHMS.get((algorithm.name, algorithm.collective.name))
        if known is not None and algorithm is known.at(algorithm.collective.root):
            return
        if world_size in self._proved.get(algorithm, ()):
            return
        verify(algorithm, world_size)
        self._proved.setdefault(algorithm, set()).add(world_size)


def _rounds(binding: Binding) -> int:
    return 1 + sum(map(len, binding.lanes))
