"""Ids of webhooks that are never given again on SQLite, as on other databases."""

from alembic import op

revision = "0006"
down_revision = "0005"
position = 6
# The tables have the same columns; only the ids of rows to come are others.
compatible_from = 1

TABLES = ("webhook_endpoints", "webhook_deliveries")


def upgrade() -> None:
    """Make the tables anew where ids would else be given again once the newest row is gone."""
    _made_anew(sqlite_autoincrement=True)


def downgrade() -> None:
    """Make them as they were."""
    _made_anew()


def _made_anew(**options: bool) -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    for table in TABLES:
        with op.batch_alter_table(table, recreate="always", table_kwargs=options):
            pass
