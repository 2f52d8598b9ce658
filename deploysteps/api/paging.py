"""Pages of lists: what a request asks for, and the link to the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import falcon

from deploysteps import exceptions
from deploysteps.api.query import Query

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    limit: int
    marker: str | None
    sort_key: str = "id"
    sort_dir: str = "asc"

    def fetched(self) -> dict[str, Any]:
        """Return the arguments of a query that tells whether there is more."""
        return {**dataclasses.asdict(self), "limit": self.limit + 1}


def asked(query: Query, max_limit: int, sortable: Collection[str] = ()) -> Page:
    """Take the page that a query asks for.

    :param sortable: what the list may be sorted by, besides ``id``; without
        it the list has one order.
    :raises Invalid: an argument makes no sense.
    """
    limit = query.number("limit")
    if limit is not None and limit <= 0:
        raise exceptions.Invalid("Limit must be positive")
    page = Page(min(limit or max_limit, max_limit), query.text("marker"))
    if not sortable:
        return page
    sort_key, sort_dir = query.text("sort_key") or "id", query.text("sort_dir") or "asc"
    if sort_key not in sortable and sort_key != "id":
        raise exceptions.Invalid(
            f"The sort_key value {sort_key[:80]!r} is an invalid field for sorting"
        )
    if sort_dir not in ("asc", "desc"):
        raise exceptions.Invalid("The sort_dir must be asc or desc")
    return dataclasses.replace(page, sort_key=sort_key, sort_dir=sort_dir)


def document(
    key: str,
    found: Sequence[T],
    page: Page,
    *,
    show: Callable[[T], dict[str, Any]],
    req: falcon.Request,
    base: str,
    name: str = "uuid",
) -> dict[str, Any]:
    """Return a list as it is answered; ``found`` may have one item more than the page.

    :param name: the attribute of an item that is a marker.

    ``next`` repeats the arguments of the request, filters included.
    """
    shown = found[: page.limit]
    answer: dict[str, Any] = {key: [show(item) for item in shown]}
    if len(found) > len(shown):
        answer["next"] = onward(page, getattr(shown[-1], name), req=req, base=base)
    return answer


def onward(page: Page, marker: str, *, req: falcon.Request, base: str) -> str:
    """Return the address of the page after the one that ends with ``marker``."""
    again = {**req.params, "limit": str(page.limit), "marker": marker}
    return f"{base}{req.path}?{urlencode(again, doseq=True)}"
