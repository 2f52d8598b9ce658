"""What was recorded between the field's clients and its server (``tests/data/recordings``).

A file is one flow: ``{flow, source, exchanges}``, an exchange ``{n, label, request, response}``.
A response ``{"like": n}`` is that of exchange ``n``, but for the dates. Only what went to the REST
API is kept, and of headers only those that matter.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "recordings"


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One request and what the field's server answered."""

    flow: str
    n: int
    label: str
    method: str
    path: str
    """With the query."""
    sent: dict[str, str]
    """Headers of the request."""
    body: Any
    status: int
    headers: dict[str, str]
    answer: Any

    def __str__(self) -> str:
        return f"{self.flow}#{self.n} ({self.label}) {self.method} {self.path}"

    @property
    def error(self) -> str:
        """The text of an error; empty when it is none."""
        inner = json.loads(self.answer["error_message"]) if self.status >= 400 else {}
        return str(inner.get("faultstring", inner.get("description", "")))


def flows() -> dict[str, list[Exchange]]:
    """Return every flow's exchanges, in their order."""
    return {path.stem: list(_read(path)) for path in sorted(FOLDER.glob("*.json"))}


def _read(path: Path) -> list[Exchange]:
    kept = {one["n"]: one for one in json.loads(path.read_text())["exchanges"]}
    found = []
    for n, one in kept.items():
        request, response = one["request"], one["response"]
        if "like" in response:
            response = kept[response["like"]]["response"]
        found.append(
            Exchange(
                flow=path.stem,
                n=n,
                label=one["label"],
                method=request["method"],
                path=request["path"],
                sent=request["headers"],
                body=request["body"],
                status=response["status"],
                headers=response["headers"],
                answer=response["body"],
            )
        )
    return found
