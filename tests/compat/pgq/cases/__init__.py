"""What is asked of PgQ and of ours: every function with good and bad arguments.

queues.py       making, dropping and setting up queues; grants and storage
producing.py    inserting events
consumers.py    registering consumers, and what there is to know about them
batches.py      taking, reading and finishing batches
retries.py      repeating events
upkeep.py       ticks, rotation and what a daemon asks for
"""

from compat.pgq.cases import batches, consumers, producing, queues, retries, upkeep
from compat.pgq.cases.marking import Differs, Scenarios, Step

SCENARIOS: Scenarios = {
    name: steps
    for module in (queues, producing, consumers, batches, retries, upkeep)
    for name, steps in module.SCENARIOS.items()
}


def statement_of(step: Step) -> str:
    return step.statement if isinstance(step, Differs) else step


STATEMENTS = [statement_of(step) for steps in SCENARIOS.values() for step in steps]
# How the lines begin of which a case allows that it differs.
LINES = {step.line for steps in SCENARIOS.values() for step in steps if isinstance(step, Differs)}
