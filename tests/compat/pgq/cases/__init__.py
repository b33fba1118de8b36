"""Cases for PgQ and pgsluice: every function with valid and invalid arguments.

queues.py       creating, dropping and configuring queues; grants and storage
producing.py    inserting events
consumers.py    registering consumers, and information about them
batches.py      opening, reading and finishing batches
retries.py      retrying events
upkeep.py       ticks, rotation and the functions that daemons call
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
# Beginnings of the README lines that allow a case to differ.
LINES = {step.line for steps in SCENARIOS.values() for step in steps if isinstance(step, Differs)}
