"""The revisions of the job store's tables, for Alembic: each leads from the one before to the next.

They only add: tables, indexes, and columns that may be NULL or have a default. So an older version of
Denyut goes on working beside a newer one, with tables of the newer one. What breaks an older version begins
a new generation (the number before the ``_``), which older versions refuse (``denyut/database/revision.py``).
There is no way back: an older version works with the tables of a newer one as they are.

Each does only what is not there yet, so that tables which were made without revisions are adopted, and a
migration that was cut short goes on where it was.
"""
