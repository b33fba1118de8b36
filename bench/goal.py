"""What a question is to reach, and why it does not, where it does not."""

from __future__ import annotations

from dataclasses import dataclass

PEER = "peer"


@dataclass(frozen=True)
class Goal:
    """The least that our rate is to be.

    Attributes:
        least: How many a second, or how many times what it is compared with.
        of: What that is: `PEER`, a peer's rate; the name of another question, our rate there; None.
        why_missed: Said with the result when it is not reached.
        peer: Which peer; None: the first.
        unit: Said behind `least` where it is compared with nothing.
    """

    least: float
    of: str | None = PEER
    why_missed: str = ""
    peer: str | None = None
    unit: str = "a second"

    def __str__(self) -> str:
        if self.of is None:
            return (
                f"{self.least:,.0f} {self.unit}"
                if self.least >= 1
                else f"{self.least:.2g} {self.unit}"
            )
        return f"{self.least:.2g} of {self.peer or 'the peer' if self.of == PEER else self.of}"

    def ratio(self, question: str, medians: dict[str, dict[str, float]]) -> float:
        """What is to be `least` or more, from medians (question → system → rate, ours first)."""
        ours, *peers = medians[question].values()
        if self.of is None:
            return ours
        if self.of != PEER:
            return ours / next(iter(medians[self.of].values()))
        return ours / (peers[0] if self.peer is None else medians[question][self.peer])

    def reached(self, question: str, medians: dict[str, dict[str, float]]) -> bool:
        """Whether the medians reach it."""
        return self.ratio(question, medians) >= self.least
