"""One object per database: its URL, its pool, reading and writing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions
from deploysteps.db import engine as engine_module
from deploysteps.db import migration, nodes
from deploysteps.db.engine import CommitUnknown, Database
from deploysteps.db.models import Node, table
from tests.support_sql import counting

NODES = table(Node)
on_servers = pytest.mark.parametrize("kind", ["postgresql", "mysql"])
PASSWORD = "hunter2-geheim"
CLOSED = {
    "postgresql": f"postgresql+psycopg://operator:{PASSWORD}@127.0.0.1:1/ironic",
    "mysql": f"mysql+pymysql://operator:{PASSWORD}@127.0.0.1:1/ironic",
}


def ids(database):
    return database.read(lambda c: sorted(c.execute(sa.select(NODES.c.name)).scalars()))


def insert(name):
    row = {"uuid": name, "name": name, "driver": "d", "provision_state": "available"}
    return lambda c: c.execute(sa.insert(Node).values(row)) and None


# --- the URL ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "",
        f"postgresql://u:{PASSWORD}@h:port/x",
        f"oracle://u:{PASSWORD}@h/x",
        f"postgresql+nope://u:{PASSWORD}@h/x",
        f"postgresql+asyncpg://u:{PASSWORD}@h/x",
        f"mysql+mysqldb://u:{PASSWORD}@h/x",
        "sqlite+aiosqlite:///x",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_words(url):
    """F76: and its password is told nowhere, the chain of causes included."""
    with pytest.raises(exceptions.ConfigurationError, match="connection.*sqlite.*postgresql") as e:
        Database(url)
    assert PASSWORD not in repr(e.getrepr(style="long", showlocals=False).chain)
    assert PASSWORD not in str(e.value)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgres://u:p@h/x", "postgresql+psycopg://u:p@h/x"),
        ("postgresql://h/x", "postgresql+psycopg://h/x"),
        ("mysql://h/x", "mysql+pymysql://h/x?charset=utf8mb4"),
        ("mariadb://h/x", "mysql+pymysql://h/x?charset=utf8mb4"),
        ("mariadb+pymysql://h/x?charset=utf8", "mysql+pymysql://h/x?charset=utf8"),
        ("sqlite:////var/x", "sqlite:////var/x"),
    ],
)
def test_a_url_is_completed(url, wanted):
    """For mariadb+pymysql no error would be translated."""
    assert Database(url).url.render_as_string(hide_password=False) == wanted


@pytest.mark.parametrize(
    ("url", "module"), [("postgresql://h/x", "psycopg"), ("mysql://h/x", "pymysql")]
)
def test_a_missing_driver_is_named_with_its_remedy(url, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    extra = url.split(":")[0]
    wanted = rf"needs the module {module}.*pip install 'deploysteps\[{extra}\]'"
    with pytest.raises(exceptions.ConfigurationError, match=wanted):
        Database(url)


@pytest.mark.parametrize("at", [*CLOSED.values(), f"postgresql://h/x?password={PASSWORD}"])
def test_a_password_is_never_shown(at):
    """F76."""
    database = Database(at)
    assert PASSWORD not in repr(database) and PASSWORD not in f"{database} {database.place}"


def test_an_error_does_not_tell_what_was_bound(database):
    """F76: statements carry tokens and passwords."""
    with pytest.raises(Exception, match="no_such") as told:
        database.read(lambda c: c.execute(sa.text("SELECT :p FROM no_such"), {"p": PASSWORD}).all())
    assert PASSWORD not in str(told.value)


# --- the start ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(CLOSED))
def test_a_server_that_is_down_is_waited_for_and_named(kind):
    told = []
    database = Database(CLOSED[kind], connect_wait=1.5)
    began = time.monotonic()
    with pytest.raises(exceptions.DatabaseUnavailable, match="127.0.0.1:1/ironic") as e:
        database.wait_ready(told.append)
    assert time.monotonic() - began < 60
    (line,) = told
    assert "waiting up to 1.5 s for the database" in line and "127.0.0.1" in line
    assert "refused" in line and "refused" in str(e.value)
    assert PASSWORD not in line + str(e.value) and "\n" not in line + str(e.value)


@on_servers
def test_a_server_that_comes_up_late_is_used(url, monkeypatch):
    database = Database(url, connect_wait=10)
    late = sa.make_url(CLOSED[database.dialect])
    real, told = database.engine.dialect.connect, []

    def connect(*args, **kwargs):
        if not told:
            kwargs.update(host=late.host, port=late.port)
        return real(*args, **kwargs)

    monkeypatch.setattr(database.engine.dialect, "connect", connect)
    database.wait_ready(told.append)
    assert len(told) == 1
    database.dispose()


def test_a_database_that_cannot_be_used_is_told_with_its_setting():
    database = Database("postgresql+psycopg://nobody@127.0.0.1:1/x", connect_wait=0)
    with pytest.raises(exceptions.DatabaseUnavailable, match=r"^\[database\] connection: "):
        database.wait_ready(print)


def test_a_file_that_cannot_be_used(tmp_path):
    def refusal(url, kind=exceptions.DatabaseUnavailable):
        with pytest.raises(kind) as told:
            Database(url).wait_ready(print)
        return str(told.value)

    (tmp_path / "letter").write_text("Dear Sir or Madam, " * 100)
    assert "letter: file is not a database" in refusal(f"sqlite:///{tmp_path}/letter")
    assert "unable to open" in refusal(f"sqlite:///{tmp_path}")
    told = refusal(f"sqlite:///{tmp_path}/letter/x.sqlite", exceptions.ConfigurationError)
    assert "cannot make the" in told and "state_path" in told


def test_the_folder_of_a_file_is_made(tmp_path):
    """The folder that is our own, that is: another one may be a typing error."""
    url, folder = f"sqlite:///{tmp_path}/var/lib/d.sqlite", str(tmp_path / "var" / "lib")
    with pytest.raises(exceptions.ConfigurationError, match="there is no folder"):
        Database(url, own_folder=str(tmp_path)).wait_ready(print)
    assert not (tmp_path / "var").exists()
    database = Database(url, own_folder=folder)
    database.wait_ready(print)
    assert (tmp_path / "var/lib/d.sqlite").exists()
    database.dispose()


# --- a database in memory ---------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"]
)
def test_in_memory_is_recognised(url):
    """F55: it is warned of at start."""
    assert Database(url).in_memory
    assert not Database("sqlite:///memory").in_memory


def test_threads_share_a_database_in_memory(make):
    """One connection is the database: a reader's end must not roll a writer back."""
    database = Database("sqlite://")
    database.wait_ready(print)
    migration.ensure(database)
    stop, errors = threading.Event(), []

    def read():
        while not stop.is_set():
            ids(database)
            time.sleep(0.001)

    def write(number):
        try:
            for i in range(15):
                name = f"{number}-{i}"

                def work(connection, name=name):
                    insert(name)(connection)
                    time.sleep(0.001)

                database.write(work)
        except Exception as exc:
            errors.append(exc)

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert errors == [] and len(ids(database)) == 60
    database.dispose()


# --- writing ------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch):
    """What the tries paused, in seconds, without waiting."""
    found = []
    monkeypatch.setattr(engine_module.time, "sleep", found.append)
    return found


@contextmanager
def commits(database, *ways):
    """Break the connection at the next COMMITs: ``after`` or ``before`` it is done."""
    real, left = database.engine.dialect.do_commit, list(ways)

    def do_commit(pooled):
        if left:
            if left.pop(0) == "after":
                real(pooled)
            pooled.dbapi_connection.close()
        real(pooled)

    database.engine.dialect.do_commit = do_commit
    try:
        yield
    finally:
        del database.engine.dialect.do_commit
    assert not left


def named(name):
    return lambda c: bool(c.execute(sa.select(NODES.c.id).where(NODES.c.name == name)).all())


def test_a_write_is_one_transaction(database):
    def work(connection):
        insert("a")(connection)
        raise KeyError("stop")

    with counting(database) as count, pytest.raises(KeyError):
        database.write(work)
    assert ids(database) == [] and count.commits == 0
    with counting(database) as count:
        assert database.write(lambda c: [insert("a")(c), insert("b")(c), 7][-1]) == 7
    assert ids(database) == ["a", "b"] and count.commits == 1


@pytest.mark.parametrize("how", ["after", "before"])
def test_a_commit_of_unknown_outcome_is_looked_up(database, how):
    """Promise 4: and only then tried again, so that nothing is done twice."""
    tries = []

    def work(connection):
        tries.append(1)
        insert("a")(connection)
        return len(tries)

    with commits(database, how):
        assert database.write(work, happened=named("a")) == {"after": 1, "before": 2}[how]
    assert ids(database) == ["a"]


def test_a_commit_that_nobody_can_look_up(database):
    with commits(database, "after"), pytest.raises(CommitUnknown) as told:
        database.write(insert("a"))
    assert isinstance(told.value, exceptions.DatabaseUnavailable)
    assert ids(database) == ["a"]


def test_a_commit_that_cannot_be_looked_up_now(database, pauses):
    def happened(_connection):
        raise db_exc.DBConnectionError

    with commits(database, "before"), pytest.raises(CommitUnknown):
        database.write(insert("a"), happened=happened)
    assert 5 <= len(pauses) < 20 and sum(pauses) < 20


def test_commits_that_go_on_breaking(database):
    with commits(database, "before", "before", "after"):
        database.write(insert("a"), happened=named("a"))
    assert ids(database) == ["a"]


@pytest.mark.parametrize(
    "error",
    [
        db_exc.DBDeadlock(),
        db_exc.DBConnectionError(),
        sa.exc.OperationalError("", {}, Exception("could not serialize access")),
        sa.exc.OperationalError("", {}, Exception("database is locked")),
        sa.exc.OperationalError("", {}, Exception("Lock wait timeout exceeded")),
    ],
    ids=lambda e: f"{type(e).__name__} {getattr(e, 'orig', '')}",
)
def test_what_is_a_matter_of_timing_is_tried_again_but_not_for_ever(sqlite, pauses, error):
    """F56."""
    tries = []

    def work(connection):
        insert("a")(connection)
        tries.append(1)
        if len(tries) < 3:
            raise error

    sqlite.write(work)
    assert ids(sqlite) == ["a"] and len(tries) == 3 and len(pauses) == 2

    def never(_connection):
        tries.append(1)
        raise error

    tries.clear(), pauses.clear()
    with pytest.raises(exceptions.DatabaseUnavailable) as told:
        sqlite.write(never)
    assert told.value.code == 503
    assert len(tries) == len(pauses) + 1 == 12 and sum(pauses) < 15
    assert pauses[0] < 0.01 and max(pauses) <= 1.5


def test_what_will_not_get_better_is_not_tried_again(database, pauses):
    tries = []

    def work(connection):
        tries.append(1)
        insert("a")(connection)
        insert("a")(connection)

    with pytest.raises(db_exc.DBDuplicateEntry) as told:
        database.write(work)
    assert len(tries) == 1 and pauses == [] and ids(database) == []
    assert told.value.__cause__ is not told.value  # or walking the causes never ends


FULL = {
    "mysql": (
        "SET max_heap_table_size = 16384",
        "CREATE TEMPORARY TABLE full_one (x CHAR(250)) ENGINE = MEMORY",
        "INSERT INTO full_one SELECT 'x' FROM information_schema.columns",
    ),
    "postgresql": ("DO $$ BEGIN RAISE EXCEPTION 'kein Platz' USING ERRCODE = '53100'; END $$",),
}


@pytest.mark.parametrize("kind", FULL, indirect=True)
def test_a_server_without_room_is_known_by_its_code(database, pauses):
    """F52: its words are of its language, and a tablespace that cannot grow is "table is full"."""

    def work(connection):
        for statement in FULL[database.dialect]:
            connection.exec_driver_sql(statement)

    with pytest.raises(exceptions.DatabaseFull, match="is full|kein Platz"):
        database.write(work)
    assert database.is_full and pauses == []
    database.write(lambda c: c.exec_driver_sql("SELECT 1") and None)
    assert not database.is_full


def test_two_writers_in_each_others_way(database, make):
    """A real deadlock on the servers; on SQLite one writer waits for the other."""
    first, second = make(database, name="1"), make(database, name="2")
    meet = threading.Barrier(2, timeout=60)
    errors, tries = [], []

    def run(*nodes_):
        def work(connection):
            tries.append(1)
            for place, node in enumerate(nodes_):
                connection.execute(
                    sa.update(NODES)
                    .where(NODES.c.id == node.id)
                    .values(generation=NODES.c.generation + 1)
                )
                if place == 0 and len(tries) <= 2 and database.dialect != "sqlite":
                    meet.wait()

        try:
            database.write(work)
        except Exception as exc:
            errors.append(exc)

    threads = [
        threading.Thread(target=run, args=pair) for pair in ((first, second), (second, first))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [nodes.get(database, n.id).generation for n in (first, second)] == [2, 2]
    assert len(tries) == (2 if database.dialect == "sqlite" else 3)


def test_a_file_that_another_process_writes_to(tmp_path):
    """F56: the busy timeout, and tries beyond it."""
    url = f"sqlite:///{tmp_path}/d.sqlite"
    mine, other = Database(url, busy_timeout=0.05), Database(url)
    mine.wait_ready(print)
    migration.ensure(mine)
    with other.engine.connect() as connection:
        begun = connection.begin()
        timer = threading.Timer(0.6, begun.rollback)
        began = time.monotonic()
        timer.start()
        mine.write(insert("a"))
        assert time.monotonic() - began > 0.5
        timer.join()
    assert ids(mine) == ["a"]
    mine.dispose(), other.dispose()


# --- connections that break -----------------------------------------------------------------


KILL = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL {}"),
}


def kill_pooled(database):
    """End, at the server, the connection that the pool gives next."""
    who, kill = KILL[database.dialect]
    with database.engine.connect() as connection:
        number = connection.exec_driver_sql(who).scalar()
    admin = sa.create_engine(database.url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(kill.format(number))
    admin.dispose()
    time.sleep(0.05)


@on_servers
def test_a_connection_that_the_server_ended_is_replaced(database):
    """The server was restarted, or a firewall forgot about it."""
    kill_pooled(database)
    assert ids(database) == []
    kill_pooled(database)
    database.write(insert("a"))
    kill_pooled(database)

    def work(connection):
        insert("b")(connection)
        if not killed:
            killed.append(connection.exec_driver_sql(KILL[database.dialect][0]).scalar())
            admin = sa.create_engine(database.url, isolation_level="AUTOCOMMIT")
            with admin.connect() as other:
                other.exec_driver_sql(KILL[database.dialect][1].format(killed[0]))
            admin.dispose()
            insert("c")(connection)

    killed = []
    database.write(work)
    assert ids(database) == ["a", "b"]


@pytest.mark.parametrize("kind", sorted(CLOSED))
def test_a_server_that_went_away(kind, pauses):
    """F52: "connection refused" is tried again, and at last told as a 503."""
    database = Database(CLOSED[kind])
    for call in (ids, lambda d: d.write(insert("a"))):
        pauses.clear()
        with pytest.raises(exceptions.DatabaseUnavailable, match="does not answer") as told:
            call(database)
        assert told.value.code == 503 and PASSWORD not in str(told.value)
    assert len(pauses) == 11


def test_a_pool_that_is_used_up(url):
    """Told in words, and what to set; nothing hangs for ever."""
    database = Database(url, max_pool_size=1, max_overflow=0, pool_timeout=0.1)
    database.wait_ready(print)
    with database.reading() as held:
        held.execute(sa.text("SELECT 1"))
        for call in (database.read, database.write):
            with pytest.raises(exceptions.DatabaseUnavailable, match="max_pool_size") as told:
                call(lambda c: None)
            assert told.value.code == 503
    assert database.read(lambda c: c.execute(sa.text("SELECT 1")).scalar()) == 1
    database.dispose()


def test_no_connection_is_kept_by_what_fails(url):
    database = Database(url, max_pool_size=1, max_overflow=0, pool_timeout=1)
    database.wait_ready(print)
    migration.ensure(database)

    def fail(_connection):
        raise KeyError("x")

    for _ in range(3):
        for call in (database.read, database.write):
            with pytest.raises(KeyError):
                call(fail)
            with pytest.raises((db_exc.DBError, sa.exc.DBAPIError)):
                call(lambda c: c.execute(sa.text("SELECT x FROM no_such")))
    database.dispose()


# --- isolation ------------------------------------------------------------------------


@on_servers
def test_a_fence_sees_what_others_committed(database, make):
    """READ COMMITTED: a snapshot would let a lost lock write."""
    node = make(database)

    def work(connection):
        connection.execute(sa.select(NODES.c.id)).all()  # a snapshot, if there were one
        nodes.set_unlocked(database, node.id, {"lock_token": "new"})
        query = sa.update(NODES).where(NODES.c.id == node.id, NODES.c.lock_token == "new")
        seen = connection.execute(sa.select(NODES.c.lock_token)).scalar()
        return seen, connection.execute(query.values(fault="x")).rowcount

    assert database.write(work) == ("new", 1)


def test_a_matched_row_counts_though_nothing_changed(database, make):
    """MariaDB counts changed rows unless asked: an equal heartbeat would be lost."""
    node = make(database, fault="same")
    query = sa.update(NODES).where(NODES.c.id == node.id).values(fault="same")
    assert database.write(lambda c: c.execute(query).rowcount) == 1


def test_reading_writes_nothing_and_waits_for_nobody(database, make):
    """F61: reads take no lock."""
    make(database, name="a")
    held, done = threading.Event(), threading.Event()

    def work(connection):
        connection.execute(sa.update(NODES).values(fault="x"))
        held.set()
        assert done.wait(60)

    writer = threading.Thread(target=lambda: database.write(work))
    writer.start()
    assert held.wait(60)
    assert nodes.get(database, "a").fault is None
    assert writer.is_alive(), "it has waited for the writer"
    done.set()
    writer.join()
    assert nodes.get(database, "a").fault == "x"


def test_tries_are_told_at_debug_level(sqlite, pauses, caplog):
    caplog.set_level(logging.DEBUG, "deploysteps")
    tries = []

    def work(_connection):
        tries.append(1)
        if len(tries) == 1:
            raise db_exc.DBDeadlock

    sqlite.write(work)
    assert "Trying a transaction again: DBDeadlock" in caplog.text
