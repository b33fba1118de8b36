"""The command `pgsluice` with a vacuum that removes files after seconds instead of hours.

python soak_driver.py RETENTION_S ARGUMENT …
"""

from __future__ import annotations

import sys

from pgsluice.cli.main import main
from pgsluice.lake import jobs
from pgsluice.lake.delta import jobs as delta_jobs
from pgsluice.pipelines.current_state import upkeep

RETENTION_H = float(sys.argv[1]) / 3600
unneeded = delta_jobs._unneeded

if __name__ == "__main__":
    # Only the lower bound of an hour is lifted. delta-rs counts in whole hours; the age in seconds is checked after it.
    delta_jobs._unneeded = lambda table, _hours: unneeded(table, 0)
    jobs.RETENTION_HOURS_MIN = RETENTION_H
    upkeep.vacuum = lambda folder, **_how: jobs.vacuum(folder, retention_hours=RETENTION_H)
    main(sys.argv[2:])
