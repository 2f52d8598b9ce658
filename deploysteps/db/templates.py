"""Queries on deploy templates. Everything returned is detached."""

from __future__ import annotations

from deploysteps import exceptions
from deploysteps.db.models import DeployTemplate
from deploysteps.db.saved import Saved

TEMPLATES = Saved(DeployTemplate, lambda ident: exceptions.DeployTemplateNotFound(template=ident))

get = TEMPLATES.get
listing = TEMPLATES.listing
named = TEMPLATES.named
insert = TEMPLATES.insert
update = TEMPLATES.update
delete = TEMPLATES.delete
