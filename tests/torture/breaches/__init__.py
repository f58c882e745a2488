"""Ways in which a store could break its promises, done to the history and the dump of a good campaign.

Each names the invariant that must notice. They take the first job that fits, so a world needs many jobs.
"""

from tests.torture.breaches import attempts, elsewhere, jobs

BREACHES = (*jobs.BREACHES, *attempts.BREACHES, *elsewhere.BREACHES)
