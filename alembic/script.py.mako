"""${message}."""

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
# The position in the line of revisions, and the oldest one whose programs
# still work on this schema (itself, when it does more than add).
position = None
compatible_from = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
