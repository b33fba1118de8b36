"""Goals of questions, with the reasons for missed ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

PEER = "peer"
MILLISECONDS = "ms"


@dataclass(frozen=True)
class Goal:
    """Minimum rate or ratio of a question.

    Attributes:
        least: Minimum rate per second, or minimum ratio to `of`.
        of: `PEER` for a peer's rate; the name of another question for our rate there; None for an absolute rate.
        why_missed: Reason to show if it is missed.
        peer: Name of the peer; None for the first.
        unit: Unit of an absolute rate; `MILLISECONDS` if the rate is an inverse latency, see `at_most_ms`.
        ours: Name of our system; None for the first.
    """

    least: float
    of: str | None = PEER
    why_missed: str = ""
    peer: str | None = None
    unit: str = "a second"
    ours: str | None = None

    @classmethod
    def at_most_ms(
        cls, latency_ms: float, *, why_missed: str = "", ours: str | None = None
    ) -> Self:
        """Return the goal of a question that measures an inverse latency in seconds."""
        return cls(1000 / latency_ms, None, why_missed, unit=MILLISECONDS, ours=ours)

    def __str__(self) -> str:
        if self.unit == MILLISECONDS:
            return f"at most {1000 / self.least:.3g} ms"
        if self.of is None:
            return (
                f"{self.least:,.0f} {self.unit}"
                if self.least >= 1
                else f"{self.least:.2g} {self.unit}"
            )
        return f"{self.least:.2g} of {self.peer or 'the peer' if self.of == PEER else self.of}"

    def ratio(self, question: str, medians: dict[str, dict[str, float]]) -> float:
        """Return the value to compare with `least`, from medians (question → system → rate, ours first)."""
        of_question = medians[question]
        first, *peers = of_question
        ours = self.ours or first
        if self.of is None:
            return of_question[ours]
        if self.of != PEER:
            return of_question[ours] / medians[self.of][ours]
        return of_question[ours] / of_question[self.peer or peers[0]]

    def shown(self, ratio: float) -> str:
        """Format a value that `ratio` returned."""
        if self.unit == MILLISECONDS:
            ms = 1000 / ratio
            return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
        return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}"

    def reached(self, question: str, medians: dict[str, dict[str, float]]) -> bool:
        """True if the medians reach the goal."""
        return self.ratio(question, medians) >= self.least
