"""What an operation of the API is: who may do it, what it takes, what it answers.

Every resource declares its methods in ``operations``. Policy, OpenAPI and the reference are made
from that declaration; nothing of it is written a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deploysteps.api.schemas import Schema

EMPTY: Schema | None = None
"""In ``answers``: a status whose answer has no body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of a resource."""

    summary: str
    """A short sentence, as a heading."""
    rule: str | None
    """Name of the policy rule that a caller must satisfy; None for what anybody may."""
    since: int = 1
    """Minor version from which on it is there."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    """Arguments of the query."""
    body: Schema | None = None
    """What the request's body must be; the same that validates it."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Members of the body -> the minor version that each came with."""
    answers: Mapping[int, Schema | None]
    """Statuses that are no refusal, each with what the body is then: JSON, or text of the
    ``contentMediaType`` that the schema names, or what stands in its ``x-media``."""
    errors: tuple[int, ...] = ()
    """Statuses of refusals besides those that every operation has (400, 401, 403, 404, 406)."""
