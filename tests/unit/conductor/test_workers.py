"""The threads that work: what they log is of who asks for the work."""

from __future__ import annotations

import threading

from oslo_context.context import RequestContext, get_current

from deploysteps.conductor.workers import Workers


def ids(workers, asks):
    """Return the id under which a piece of work logs, asked for in a thread of its own."""
    found, done = [], threading.Event()

    def work():
        found.append(get_current().request_id)
        done.set()

    def ask():
        if asks:
            RequestContext(request_id=asks, overwrite=True)
        workers.reserve().run(work)

    threading.Thread(target=ask).start()
    assert done.wait(60)
    return found[0]


def test_what_a_worker_logs_is_of_the_request_that_asks_for_it():
    """Also in a thread that worked for another request before."""
    workers = Workers(1, 0)
    assert ids(workers, "req-one") == "req-one"
    assert ids(workers, "req-two") == "req-two"
    assert ids(workers, None) not in ("req-one", "req-two", None)
    assert workers.close(10)
