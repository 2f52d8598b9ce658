"""Texts that differ in a blank at their end are two on MariaDB, as on other databases."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
position = 7
# What is stored stays, and nothing that older programs write is refused.
compatible_from = 1
# On MariaDB it goes on from where it broke off: what is done is left out.
goes_on = True

PADDED = "utf8mb4_bin"
EXACT = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
"""MariaDB's name for it, and MySQL's."""


def upgrade() -> None:
    """Compare texts by their whole bytes in every table."""
    convert((PADDED,), EXACT)


def downgrade() -> None:
    """Pass over blanks at the end again."""
    convert(EXACT, (PADDED,))


def convert(before: Sequence[str], wanted: Sequence[str]) -> None:
    """Give tables of some collations the first of others that the server has, if it has one."""
    bind = op.get_bind()
    if bind.dialect.name != "mysql":
        return
    known = bind.execute(sa.text("SELECT COLLATION_NAME FROM information_schema.COLLATIONS"))
    names = set(known.scalars())
    now = next((name for name in wanted if name in names), None)
    if now is None:
        return
    query = sa.text(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
        "AND TABLE_TYPE = 'BASE TABLE' AND TABLE_COLLATION IN :before ORDER BY TABLE_ROWS"
    ).bindparams(sa.bindparam("before", list(before), expanding=True))
    for table in list(bind.execute(query).scalars()):
        op.execute(f"ALTER TABLE `{table}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {now}")
