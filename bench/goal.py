"""Goals of questions, with the reasons for missed ones."""

from __future__ import annotations

from dataclasses import dataclass

PEER = "peer"


@dataclass(frozen=True)
class Goal:
    """Minimum rate or ratio of a question.

    Attributes:
        least: Minimum rate per second, or minimum ratio to `of`.
        of: `PEER` for a peer's rate; the name of another question for our rate there; None for an absolute rate.
        why_missed: Reason to show if it is missed.
        peer: Name of the peer; None for the first.
        unit: Unit of an absolute rate.
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
        """Return the value to compare with `least`, from medians (question → system → rate, ours first)."""
        ours, *peers = medians[question].values()
        if self.of is None:
            return ours
        if self.of != PEER:
            return ours / next(iter(medians[self.of].values()))
        return ours / (peers[0] if self.peer is None else medians[question][self.peer])

    def reached(self, question: str, medians: dict[str, dict[str, float]]) -> bool:
        """True if the medians reach the goal."""
        return self.ratio(question, medians) >= self.least
