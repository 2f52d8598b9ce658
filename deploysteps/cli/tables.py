"""Tables for terminals, as wide as the terminal and no wider.

What does not fit is neither cut off nor folded in the middle of a word, as long as it can be
helped: headings are shortened, and then the longest columns stand below their row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deploysteps.cli.output import clean, styled

_GAP = 2
_LONG = 20
"""Columns at least so wide may stand below their row, and those called ``note``."""
_HEADING = 6
"""What is left of a heading, at least."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> Group | Table:
    """Return rows for a terminal that is ``width`` wide."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widest = [max((cell_len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    kept = list(range(len(columns)))
    while True:
        for heading in (10_000, _HEADING):
            widths = {i: max(widest[i], min(len(columns[i]), heading)) for i in kept}
            if sum(widths.values()) + _GAP * (len(kept) - 1) <= width:
                return _lines(columns, cells, widths)
        long = [i for i in kept if widest[i] >= _LONG or columns[i] == "note"]
        if len(columns) <= 2:
            return _folded(columns, cells)
        if not long:
            return _lines(columns, cells, {kept[0]: min(widths[kept[0]], width)})
        kept.remove(max(long, key=lambda i: widest[i]))


def _lines(columns: Sequence[str], cells: Sequence[Sequence[str]], widths: dict[int, int]) -> Group:
    """Return a table of the columns that have a width; the others stand below their rows."""
    below = [i for i in range(len(columns)) if i not in widths]
    heads = (_shortened(columns[i], width) for i, width in widths.items())
    rule = "─" * (sum(widths.values()) + _GAP * (len(widths) - 1))
    shown: list[Text | Padding] = [
        _joined([Text(head, style="bold") for head in heads]),
        Text(rule, style="dim"),
    ]
    for row in cells:
        shown.append(_joined([_padded(row[i], width) for i, width in widths.items()]))
        for i in below:
            if row[i]:
                told = Text.assemble((f"{columns[i]}: ", "dim"), styled(row[i]))
                shown.append(Padding(told, (0, 0, 0, 2)))
    return Group(*shown)


def _shortened(heading: str, width: int) -> str:
    cut = heading if len(heading) <= width else heading[: width - 1] + "…"
    return cut.ljust(width)


def _padded(cell: str, width: int) -> Text:
    text = styled(cell)
    return Text(set_cell_size(cell, width), style=text.style)


def _joined(cells: Sequence[Text]) -> Text:
    text = Text(" " * _GAP).join(cells)
    text.rstrip()
    text.no_wrap = True
    return text


def _folded(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """Return a table whose cells are folded."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in cells:
        made.add_row(*(styled(cell) for cell in row))
    return made
