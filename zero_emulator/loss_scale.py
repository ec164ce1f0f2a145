"""A loss scale that finds its own size: large enough for small gradients, small enough for large ones."""

from dataclasses import dataclass


@dataclass
class LossScale:
    """What the loss is multiplied by, and its gradients divided by.

    Halved when a gradient overflows, doubled after ``patience`` updates without one.
    Source: P. Micikevicius et al., Mixed Precision Training, ICLR 2018; defaults of torch.amp.GradScaler.
    """

    value: float = 65536.0
    patience: int = 2000
    good_updates: int = 0

    def learn(self, finite: bool) -> None:
        """Adapt to whether the last gradients were finite."""
        if not finite:
            self.value, self.good_updates = self.value / 2, 0
        elif self.good_updates + 1 == self.patience:
            self.value, self.good_updates = self.value * 2, 0
        else:
            self.good_updates += 1
