"""Which dtype lives where, and which goes over the wire."""

from dataclasses import dataclass, replace

ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number, by dtype name; the later, the fewer digits."""

HOLDS = {
    "float64": ("float64", "float32", "bfloat16", "float16"),
    "float32": ("float32", "bfloat16", "float16"),
    "bfloat16": ("bfloat16",),
    "float16": ("float16",),
}
"""The dtypes whose every number each dtype holds exactly."""


@dataclass(frozen=True)
class Precision:
    """A policy, by dtype names.

    ``weight`` and ``gradient`` are kept between iterations. ``gradient_beside`` is a second, wider gradient
    that is kept beside the first and adds up micro-batches. ``reduce`` is what a gradient is sent and added
    in, ``weight_wire`` what weights are gathered in. ``master`` weights, if any, are what the optimizer
    updates, with moments of dtype ``moment``. ``compute`` is what forward and backward work in: a narrower
    weight is cast, a layer at a time.
    """

    name: str
    weight: str
    gradient: str
    reduce: str
    weight_wire: str
    moment: str
    compute: str
    master: str | None = None
    gradient_beside: str | None = None
    scales_loss: bool = False
    """Whether small gradients would be lost without a loss scale: float16 has 5 bits of exponent."""

    def __post_init__(self) -> None:
        for role in ("weight", "gradient", "reduce", "weight_wire", "moment", "compute"):
            self._check(role, getattr(self, role))
        for role in ("master", "gradient_beside"):
            if getattr(self, role) is not None:
                self._check(role, getattr(self, role))

        if self.weight not in HOLDS[self.weight_wire]:
            raise ValueError(
                f"{self.weight} weights do not survive a wire of {self.weight_wire}: a rank's own block "
                f"would differ from what the others get: keep them in {self.weight_wire}, or widen the wire"
            )

    def _check(self, role: str, dtype: str) -> None:
        if dtype not in ITEMSIZE:
            raise ValueError(f"{role} dtype {dtype}: take one of {', '.join(ITEMSIZE)}")

    def override(
        self, *, gradient: str | None = None, reduce: str | None = None, weight_wire: str | None = None
    ) -> "Precision":
        """The policy with single settings replaced; a new gradient dtype is reduced in, too, unless told."""
        reduce = gradient if reduce is None else reduce
        return replace(
            self,
            gradient=self.gradient if gradient is None else gradient,
            reduce=self.reduce if reduce is None else reduce,
            weight_wire=self.weight_wire if weight_wire is None else weight_wire,
        )

    @property
    def summed_gradient(self) -> str:
        """The dtype of the gradient that adds up micro-batches and makes the update."""
        return self.gradient_beside or self.gradient

    @property
    def updated(self) -> str:
        """The dtype of the weights that the optimizer updates."""
        return self.master or self.weight

    @property
    def coarsest(self) -> str:
        """The one with fewest digits of the dtypes that a gradient or a weight passes through."""
        passed = {self.weight, self.gradient, self.summed_gradient, self.reduce, self.compute}
        return max(passed, key=list(ITEMSIZE).index)

    @property
    def votes(self) -> bool:
        """Whether ranks vote on gradients that are not finite: where numbers overflow, they must."""
        return self.master is not None

    def bytes_a_parameter(self, num_moments: int) -> dict[str, int]:
        """Bytes kept for one parameter, by kind, before any sharding."""
        gradients = [self.gradient, *([self.gradient_beside] if self.gradient_beside else [])]
        master = {"master": ITEMSIZE[self.master]} if self.master else {}
        return {
            "weight": ITEMSIZE[self.weight],
            "gradient": sum(ITEMSIZE[dtype] for dtype in gradients),
            **master,
            "moment": num_moments * ITEMSIZE[self.moment],
        }


def _uniform(name: str, dtype: str) -> Precision:
    return Precision(name, dtype, dtype, dtype, dtype, dtype, dtype)


def _mixed(name: str, narrow: str, *, gradient: str | None = None, reduce: str | None = None) -> Precision:
    return Precision(
        name,
        weight=narrow,
        gradient=gradient or narrow,
        reduce=reduce or gradient or narrow,
        weight_wire=narrow,
        moment="float32",
        compute="float32",
        master="float32",
    )


PRECISIONS = {
    policy.name: policy
    for policy in (
        _uniform("fp32", "float32"),
        _uniform("fp64", "float64"),
        _mixed("bf16", "bfloat16"),
        _mixed("bf16-fp32grad", "bfloat16", gradient="float32"),
        replace(_mixed("bf16+fp32grad", "bfloat16", reduce="float32"), gradient_beside="float32"),
        replace(_mixed("fp16", "float16"), scales_loss=True),
    )
}
"""With Adam they keep 16, 32, 16, 18, 20 and 16 bytes a parameter."""


def find_precision(name: str) -> Precision:
    """The preset of that name; ValueError names those that exist."""
    if name not in PRECISIONS:
        raise ValueError(f"no precision {name!r}: take one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
