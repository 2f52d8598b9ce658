"""Failure texts, judged answers, and the clocks of waits: pure functions."""

from __future__ import annotations

import datetime
import socket
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import exceptions, secrets, states
from deploysteps.conductor import answers, waiting, words
from deploysteps.steps import DEPLOY

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
CLOCKS = waiting.Clocks(silence=60, default_limit=600, agent_limit=0)


class Node:
    def __init__(self, **info: Any) -> None:
        self.driver_internal_info = info


def ask(call: Any, **info: Any) -> answers.Answer:
    task = types.SimpleNamespace(node=Node(**info), lost=False, undo_renaming=str)
    return answers.ask(task, DEPLOY, call)


@pytest.mark.parametrize(
    "state", [states.DEPLOYWAIT, "wait call-back", "".join(["wait call", "-back"])]
)
def test_the_flows_wait_state_is_accepted_as_any_equal_string(state: str) -> None:
    answer = ask(lambda: state)
    assert isinstance(answer, answers.Waits) and answer.wait.poll is None


async def coroutine() -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    "value",
    [0, 1, "", [], True, False, (), (1,), generator(), coroutine(), object(), NotImplemented,
     states.CLEANWAIT, states.DEPLOYING, "error", {"status": "failed"},
     states.wait(states.CLEANWAIT, poll=1)],
)  # fmt: skip
def test_any_other_return_value_fails_and_names_its_type(value: Any) -> None:
    """F74, F75."""
    answer = ask(lambda: value)
    assert isinstance(answer, answers.Failed) and not answer.raised
    assert type(value).__name__ in answer.why and "wait call-back" in answer.why


def test_a_step_that_forgot_to_say_that_it_waits_fails() -> None:
    """F31."""

    def polled() -> None:
        states.wait(states.DEPLOYWAIT, poll=1)

    assert "states.wait()" in ask(polled).why  # type: ignore[union-attr]
    flagged = ask(lambda: None, deployment_polling=True)
    assert isinstance(flagged, answers.Failed) and "deployment_polling" in flagged.why
    assert ask(lambda: None) is answers.DONE


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError])
def test_whatever_a_step_raises_is_its_failure(kind: type[BaseException]) -> None:
    """F51."""

    def call() -> None:
        raise kind("no")

    answer = ask(call)
    assert isinstance(answer, answers.Failed) and kind.__name__ in answer.why


def test_a_lost_lock_is_no_failure_of_the_step() -> None:
    def call() -> None:
        raise exceptions.LockLost(node="n")

    lost = types.SimpleNamespace(node=Node(), lost=True)
    with pytest.raises(exceptions.LockLost):
        answers.ask(lost, DEPLOY, call)
    assert isinstance(ask(call), answers.Failed)  # the author's own: the lock is held


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_that_cannot_be_shown_is_told_all_the_same() -> None:
    """F64."""
    assert "Unprintable" in words.text_of(Unprintable())
    with socket.socket() as held:
        assert "ValueError" in words.text_of(ValueError(held, lambda: 0))
    loop: list[Any] = []
    loop.append(loop)
    assert "KeyError" in words.text_of(KeyError(loop))
    found = words.evidence_of(Unprintable(), secrets.Masker())
    assert "Unprintable" in found["exception"]


@given(st.text(max_size=300), st.integers(100, 400))
def test_a_shortened_text_fits_keeps_its_ends_and_can_be_stored(text: str, limit: int) -> None:
    """F58: truncated by encoded bytes, NUL and lone surrogates scrubbed."""
    short = words.shortened(text, limit)
    assert len(short.encode("utf-8")) <= limit
    assert "\0" not in short
    if len(text.encode("utf-8", "backslashreplace")) < limit // 4 and "\0" not in text:
        assert short == text.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("text", ["x" * 5_000_000, "\U0001f600" * 70_000, "a\0b\ud800c" * 9000])
def test_huge_texts_keep_head_and_tail(text: str) -> None:
    """F58."""
    short = words.shortened("HEAD" + text + "TAIL", words.LAST_ERROR_BYTES)
    assert len(short.encode()) <= words.LAST_ERROR_BYTES
    assert short.startswith("HEAD") and short.endswith("TAIL") and "left out" in short


def test_the_text_of_last_error() -> None:
    """F72: golden."""
    told = words.step_failed("raid", "create_configuration", "the controller said no", 2, 12.34)
    assert (
        told == "raid.create_configuration failed: the controller said no (attempt 2, after 12 s)"
    )


def seconds(columns: dict[str, Any], name: str) -> float | None:
    return (columns[name] - NOW).total_seconds() if columns[name] else None


def begun(wait, timeout):
    return waiting.begin(waiting.Said(wait), timeout, NOW, None, CLOCKS)


def test_a_wait_for_the_agent_ends_by_silence_and_by_the_steps_own_limit() -> None:
    columns = begun(states.Wait(states.DEPLOYWAIT), None)
    assert (columns["owner"], seconds(columns, "due_at"), columns["deadline_at"]) == (
        "agent",
        60,
        None,
    )
    columns = begun(states.Wait(states.DEPLOYWAIT), 30)
    assert (seconds(columns, "due_at"), seconds(columns, "deadline_at")) == (30, 30)


def test_a_polled_wait_is_not_bound_to_the_agents_silence() -> None:
    """F35: its limit is its own, or the default of polled waits."""
    wait = states.wait(states.DEPLOYWAIT, poll=5)
    columns = begun(wait, None)
    assert (columns["owner"], seconds(columns, "due_at"), seconds(columns, "deadline_at")) == (
        "poller", 5, 600,
    )  # fmt: skip
    assert begun(states.wait(states.DEPLOYWAIT, poll=5, limit=0), 9)["deadline_at"] is None
    limited = begun(states.wait(states.DEPLOYWAIT, poll=5, limit=7), 9)
    assert seconds(limited, "deadline_at") == 7


def test_a_beat_during_the_wait_moves_the_end_of_silence() -> None:
    beat = NOW + datetime.timedelta(seconds=10)
    assert waiting.silent_at(NOW, beat, CLOCKS) == NOW + datetime.timedelta(seconds=70)
    assert waiting.silent_at(NOW, NOW - datetime.timedelta(days=1), CLOCKS) == waiting.after(
        NOW, 60
    )
    assert waiting.silent_at(NOW, None, waiting.Clocks(0, 0, 0)) is None


@given(st.floats(0, 100), st.floats(1, 10), st.floats(0, 1000))
def test_poll_pauses_grow_and_are_bounded(first: float, grow: float, most: float) -> None:
    poll = {"pause": first, "grow": grow, "at_most": most}
    for _ in range(20):
        look, poll = waiting.next_poll(poll, NOW)
        assert look > NOW and poll["pause"] <= max(most, 0.01)


@pytest.mark.parametrize(
    "bad",
    [{"poll": -1}, {"poll": True}, {"poll": "5"}, {"grow": 0.5}, {"at_most": -1}, {"limit": -1},
     {"limit": float("nan")}, {"poll": float("inf")}, {"limit": 10**12}],
)  # fmt: skip
def test_a_wait_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(exceptions.InvalidParameterValue, match=next(iter(bad))):
        states.wait(states.DEPLOYWAIT, **bad)
    with pytest.raises(exceptions.InvalidParameterValue, match="deploying"):
        states.wait(states.DEPLOYING)
