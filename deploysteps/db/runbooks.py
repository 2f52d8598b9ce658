"""Queries on runbooks. Everything returned is detached."""

from __future__ import annotations

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db.models import Runbook
from deploysteps.db.saved import Saved

RUNBOOKS = Saved(
    Runbook,
    lambda ident: exceptions.RunbookNotFound(runbook=ident),
    filters={
        "owner": lambda v: Runbook.owner == v,
        "public": lambda v: Runbook.public == sa.literal(bool(v)),
        # What a project sees: its own, and what is everybody's.
        "visible_to": lambda v: sa.or_(Runbook.owner == v, Runbook.public == sa.true()),
    },
)

get = RUNBOOKS.get
listing = RUNBOOKS.listing
named = RUNBOOKS.named
insert = RUNBOOKS.insert
update = RUNBOOKS.update
delete = RUNBOOKS.delete
