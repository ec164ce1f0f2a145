"""The report as it is printed, line by line as it is measured: the columns of nccl-tests, and ours beside."""

from collections.abc import Sequence

from collectives.bench.figures import Figures
from collectives.bench.subjects import APART, TOGETHER
from collectives.choice import AUTO

WHAT = (("size", "(B)", 10), ("count", "(elements)", 10), ("type", "", 8), ("redop", "", 5))
TIMES = (
    ("time", "(us)", 9), ("p99", "(us)", 9), ("algbw", "(GB/s)", 6), ("busbw", "(GB/s)", 6),
    ("/copy", "", 5), ("/mpi", "", 6), ("#wrong", "", 6),
)  # fmt: skip
SENT = (("sent", "(B)", 10),)
GAP = "   "


class Report:
    """Text for one collective: ``head`` once, then ``line`` for each algorithm and size."""

    def __init__(self, names: Sequence[str]) -> None:
        """``names``: of the algorithms that may be printed."""
        self._name = (("algorithm", "", max(map(len, ("algorithm", *names)))),)
        self._groups = ((*WHAT, *self._name), TIMES, TIMES, SENT)

    def head(self) -> str:
        """Three lines: where, what, and in which unit."""
        widths = [sum(width for _, _, width in group) + 2 * (len(group) - 1) for group in self._groups]
        where = ("", APART, TOGETHER, "")
        placed = GAP.join(name.center(width) for name, width in zip(where, widths, strict=True))
        names = [[name for name, _, _ in group] for group in self._groups]
        units = [[unit for _, unit, _ in group] for group in self._groups]
        return "\n".join(line.rstrip() for line in (placed, self._row(names), self._row(units)))

    def line(self, placed: Sequence[Figures]) -> str:
        """One algorithm at one size, in one placement or both."""
        one = placed[0]
        by_placement = {figures.placement: _times(figures) for figures in placed}
        name = f"{AUTO}: {one.ran}" if one.algorithm == AUTO else one.algorithm
        what = [str(one.num_bytes), str(one.count), one.dtype, one.operator or "none", name]
        blank = ["-"] * len(TIMES)
        out, inside = (by_placement.get(placement, blank) for placement in (APART, TOGETHER))
        return self._row([what, out, inside, ["-" if one.sent is None else str(one.sent)]])

    def _row(self, cells: Sequence[Sequence[str]]) -> str:
        return GAP.join(
            "  ".join(
                cell.ljust(width) if name == "algorithm" else cell.rjust(width)
                for cell, (name, _, width) in zip(row, group, strict=True)
            )
            for row, group in zip(cells, self._groups, strict=True)
        ).rstrip()


def _times(one: Figures) -> list[str]:
    return [
        f"{one.seconds * 1e6:.1f}",
        f"{one.seconds_p99 * 1e6:.1f}",
        f"{one.algorithm_bandwidth / 1e9:.2f}",
        f"{one.bus_bandwidth / 1e9:.2f}",
        f"{one.of_copy_limit:.0%}",
        "-" if one.over_mpi is None else f"{one.over_mpi:.3f}",
        str(one.wrong),
    ]
