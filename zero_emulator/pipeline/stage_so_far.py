"""One stage while all orders are walked through: what it has done, and what it has at hand."""

from zero_emulator.pipeline.actions import Action, Backward, Forward, OrderError, Receive, Send, cell

Key = tuple[str, int, int]
"""What, chunk, micro-batch."""


class StageSoFar:
    """Takes the stage's actions one by one; OrderError for one that lacks something or comes twice."""

    def __init__(self, stage: int, num_chunks: int) -> None:
        self.stage, self.num_chunks = stage, num_chunks
        self.done: set[Key] = set()
        self.here: set[Key] = set()
        """Activations and gradients that were received, or made here."""
        self.last: dict[int, int] = {}
        """The micro-batch of the last backward, by chunk."""

    def do(self, action: Action) -> None:
        if isinstance(action, Send):
            self._need(action, *action[:3])
        elif isinstance(action, Receive):
            self._once(action, self.here, action[:3])
        elif isinstance(action, Forward):
            self._forward(action)
        else:
            self._backward(action)

    def check_end(self, chunks: range, micro_batches: int) -> None:
        """OrderError if one of these chunks has not run forward and backward on every micro-batch."""
        for chunk in chunks:
            for micro_batch in range(micro_batches):
                for kind in (Forward, Backward):
                    if (kind.__name__, chunk, micro_batch) not in self.done:
                        raise OrderError(f"stage {self.stage} never does {cell(kind(chunk, micro_batch))}")

    def _forward(self, action: Forward) -> None:
        chunk, micro_batch = action
        if chunk > 0:
            self._need(action, "activation", chunk, micro_batch)
        self._once(action, self.done, ("Forward", chunk, micro_batch))
        self.here.add(("activation", chunk + 1, micro_batch))

    def _backward(self, action: Backward) -> None:
        chunk, micro_batch = action
        if ("Forward", chunk, micro_batch) not in self.done:
            raise OrderError(f"stage {self.stage} does {cell(action)} before its forward")
        if chunk < self.num_chunks - 1:
            self._need(action, "gradient", chunk, micro_batch)
        self._once(action, self.done, ("Backward", chunk, micro_batch))
        if self.last.get(chunk, -1) > micro_batch:
            raise OrderError(
                f"stage {self.stage} does {cell(action)} after micro-batch {self.last[chunk]}: gradients are "
                "summed in rising order of micro-batches"
            )
        self.last[chunk] = micro_batch
        self.here.add(("gradient", chunk - 1, micro_batch))

    def _need(self, action: Action, what: str, chunk: int, micro_batch: int) -> None:
        if (what, chunk, micro_batch) not in self.here:
            raise OrderError(
                f"stage {self.stage} does {cell(action)} before it has the {what} of micro-batch "
                f"{micro_batch} for chunk {chunk}"
            )

    def _once(self, action: Action, known: set[Key], key: Key) -> None:
        if key in known:
            raise OrderError(f"stage {self.stage} does {cell(action)} twice")
        known.add(key)
