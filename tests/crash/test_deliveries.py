"""A process is killed at every point of sending webhooks: none is lost (issue 4, section 1).

Each event is taken at least once, in the order of its node; what was refused, or taken and
not noted, is sent again.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import states
from deploysteps.conductor import webhooks as sending
from deploysteps.db import events, types, webhooks
from deploysteps.db.event_models import WebhookDelivery, WebhookEndpoint
from deploysteps.db.models import Node
from tests.crash import drivers
from tests.crash.deeds import Deed
from tests.crash.journal import journal
from tests.crash.stepwise import Stepwise, drive

URL = "http://receiver.example/hook"
SETTINGS: dict[str, Any] = {
    "secret": "a-secret-that-is-long-enough",
    "first_pause": 0.01,
    "longest_pause": 0.01,
    "timeout": 1,
}


class Receiver(sending.Receiver):
    """Sends into the journal, which refuses each third event once."""

    def _post(self, delivery: WebhookDelivery) -> str | None:
        refuses = delivery.event_id % 3 == 0 and not journal.count(
            "refuses", str(delivery.event_id)
        )
        journal.note("refuses" if refuses else "takes", str(delivery.event_id))
        return "it answered 503" if refuses else None


def _receiver(conductor: Stepwise) -> Receiver:
    for name, value in SETTINGS.items():
        conductor.runtime.conf.set_override(name, value, group="webhooks")
    conductor.runtime.database.idle_transaction_timeout = -10  # what a kill took back is no gap
    holder = f"{conductor.runtime.host}/{conductor.runtime.boot_id}"
    return Receiver(conductor.runtime, URL, holder)


def _deploys(conductor: Stepwise, node: Node) -> None:
    """Make the receiver known, and let a deployment be told; what happened before is not."""
    database = conductor.database
    database.idle_transaction_timeout = -10
    with database.engine.begin() as connection:
        connection.execute(sa.delete(WebhookEndpoint))
    webhooks.known(database, URL)
    conductor.manager.do_node_deploy(None, node.uuid)
    drive(conductor, database, node.uuid)


def _sends(conductor: Stepwise, node: Node) -> None:
    """Go round until everything is taken; one delivery at a time, as events of one node are."""
    receiver, until = _receiver(conductor), time.monotonic() + 60
    while True:
        receiver.round()
        while receiver._on_the_way:
            time.sleep(0.0005)
        newest = events.settled_newest(conductor.database)
        endpoint = webhooks.known(conductor.database, URL)
        if endpoint.cursor >= newest and not webhooks.pending(conductor.database, endpoint.id):
            return
        assert time.monotonic() < until, webhooks.listing(conductor.database, None, 10)


def _all_are_taken(conductor: Stepwise, node: Node) -> None:
    """Another process takes over when the lease is over, and nothing was lost."""
    database = conductor.database
    with database.engine.begin() as connection:
        over = types.utcnow() - datetime.timedelta(seconds=1)
        connection.execute(sa.update(WebhookEndpoint).values(lease_until=over))
    _sends(conductor, node)
    took = [int(line.step) for line in journal.all() if line.what == "takes"]
    told = [event.id for event in events.after(database, 0, 100_000, node=node.uuid)]
    first = list(dict.fromkeys(took))
    assert first == [one for one in told if one in set(took)], (took, told)
    assert set(told) <= set(took), f"lost: {set(told) - set(took)}"
    again = [one for one, count in Counter(took).items() if count > 1]
    assert len(again) <= 1 and all(count <= 2 for count in Counter(took).values()), took
    assert webhooks.listing(database, None, 10) == []
    for before, after in itertools.pairwise(took):
        assert before <= after, f"out of order: {took}"


DEED = Deed(
    "webhooks",
    states.AVAILABLE,
    _sends,
    _all_are_taken,
    _deploys,
    vendor=drivers.Alone,
    every=13,
)


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_no_webhook_is_lost_wherever_the_sender_is_killed(telling, kind, tried):
    """At least once, and in order: killed before and after each COMMIT, and each sending."""
    found = telling(DEED)
    every = 2 if kind == "sqlite" else DEED.every
    tried(found.told(every), of="webhooks, in turn", on=kind)
