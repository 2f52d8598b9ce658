"""Traits of runbooks, on every database."""

from __future__ import annotations

import threading

import pytest

from deploysteps import exceptions
from deploysteps.db import runbook_traits, runbooks, traits


@pytest.fixture
def book(database):
    return runbooks.insert(database, {"name": "CUSTOM_R", "steps": []})


def test_they_are_replaced_added_and_removed(database, book):
    change = runbook_traits.change
    assert change(database, book.id, replace=["CUSTOM_B", "CUSTOM_A"]) == ["CUSTOM_A", "CUSTOM_B"]
    assert change(database, book.id, add=["CUSTOM_C"], remove=["CUSTOM_A", "CUSTOM_X"]) == [
        "CUSTOM_B",
        "CUSTOM_C",
    ]
    other = runbooks.insert(database, {"name": "CUSTOM_S", "steps": []})
    found = runbook_traits.of_runbooks(database, [book.id, other.id])
    assert found == {book.id: ["CUSTOM_B", "CUSTOM_C"], other.id: []}
    assert change(database, book.id, replace=[]) == []


def test_they_go_with_the_runbook(database, book):
    runbook_traits.change(database, book.id, add=["CUSTOM_A"])
    runbooks.delete(database, "CUSTOM_R")
    assert runbook_traits.of_runbook(database, book.id) == []
    with pytest.raises(exceptions.RunbookNotFound):
        runbook_traits.change(database, book.id, add=["CUSTOM_A"])


def test_what_cannot_be_one_is_refused(database, book):
    with pytest.raises(exceptions.InvalidParameterValue):
        runbook_traits.change(database, book.id, add=["custom"])
    most = [f"CUSTOM_{n}" for n in range(traits.MAX_TRAITS)]
    runbook_traits.change(database, book.id, replace=most)
    with pytest.raises(exceptions.InvalidParameterValue, match="at most 50"):
        runbook_traits.change(database, book.id, add=["CUSTOM_X"])


def test_two_at_once_lose_nothing(database, book):
    def add(name):
        for number in range(5):
            runbook_traits.change(database, book.id, add=[f"CUSTOM_{name}{number}"])

    threads = [threading.Thread(target=add, args=(name,)) for name in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(runbook_traits.of_runbook(database, book.id)) == 20
