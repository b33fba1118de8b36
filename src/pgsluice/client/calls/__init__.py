"""Each SQL function as a `Call`: statement, parameters and row reader. No I/O.

The clients are generated from these functions; see clients.py. They import a module when its first call is made: most
programs make few of them, and the records of all would slow the start of commands and workers.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.client.calls import archives as archives
    from pgsluice.client.calls import captures as captures
    from pgsluice.client.calls import claims as claims
    from pgsluice.client.calls import dead_letters as dead_letters
    from pgsluice.client.calls import deduplication as deduplication
    from pgsluice.client.calls import delayed as delayed
    from pgsluice.client.calls import explain as explain
    from pgsluice.client.calls import group_keys as group_keys
    from pgsluice.client.calls import group_types as group_types
    from pgsluice.client.calls import groups as groups
    from pgsluice.client.calls import inbox as inbox
    from pgsluice.client.calls import limits as limits
    from pgsluice.client.calls import logs as logs
    from pgsluice.client.calls import notify as notify
    from pgsluice.client.calls import operations as operations
    from pgsluice.client.calls import partitions as partitions
    from pgsluice.client.calls import pgmq as pgmq
    from pgsluice.client.calls import pgq as pgq
    from pgsluice.client.calls import pgq_coop as pgq_coop
    from pgsluice.client.calls import pipelines as pipelines
    from pgsluice.client.calls import producing as producing
    from pgsluice.client.calls import reading as reading
    from pgsluice.client.calls import results as results
    from pgsluice.client.calls import retries as retries
    from pgsluice.client.calls import samples as samples
    from pgsluice.client.calls import schedules as schedules
    from pgsluice.client.calls import searching as searching
    from pgsluice.client.calls import settings as settings
    from pgsluice.client.calls import share_groups as share_groups
    from pgsluice.client.calls import spark_claims as spark_claims
    from pgsluice.client.calls import successors as successors
    from pgsluice.client.calls import tables as tables
    from pgsluice.client.calls.call import Call as Call
    from pgsluice.client.calls.call import Steps as Steps
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
