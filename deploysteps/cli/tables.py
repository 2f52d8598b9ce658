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
    sizes = [sorted(cell_len(row[i]) for row in cells) or [0] for i in range(len(columns))]
    widest, usual = [found[-1] for found in sizes], list(map(_usual, sizes))
    kept = list(range(len(columns)))
    while True:
        for cell_widths in (widest, usual):
            for heading in (10_000, _HEADING):
                widths = {i: max(cell_widths[i], min(len(columns[i]), heading)) for i in kept}
                if sum(widths.values()) + _GAP * (len(kept) - 1) <= width:
                    return _lines(columns, cells, widths)
        if len(columns) <= 2:
            return _folded(columns, cells)
        long = [i for i in kept if usual[i] >= _LONG or columns[i] == "note"]
        if not long:
            return _lines(columns, cells, {kept[0]: min(widths[kept[0]], width)})
        kept.remove(max(long, key=lambda i: usual[i]))


def _usual(sizes: Sequence[int]) -> int:
    """Return the width that nine of ten cells have room in, if few others need much more."""
    most = sizes[(len(sizes) - 1) * 9 // 10]
    return most if sizes[-1] >= _LONG else sizes[-1]


def _lines(columns: Sequence[str], cells: Sequence[Sequence[str]], widths: dict[int, int]) -> Group:
    """Return a table of the columns that have a width; what has no room stands below its row."""
    heads = (_shortened(columns[i], width) for i, width in widths.items())
    rule = "─" * (sum(widths.values()) + _GAP * (len(widths) - 1))
    shown: list[Text | Padding] = [
        _joined([Text(head, style="bold") for head in heads]),
        Text(rule, style="dim"),
    ]
    for row in cells:
        below = [i for i, cell in enumerate(row) if cell_len(cell) > widths.get(i, 0)]
        inline = (("…" if i in below else row[i], width) for i, width in widths.items())
        shown.append(_joined([_padded(cell, width) for cell, width in inline]))
        for i in below:
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
