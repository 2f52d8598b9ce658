"""Run by alembic; the connection comes from ``deploysteps.db.migration``."""

from alembic import context

from deploysteps.db.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=context.config.attributes["connection"].dialect.name != "mysql",
)
with context.begin_transaction():
    context.run_migrations()
