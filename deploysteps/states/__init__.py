"""States: their names, the table, what is derived from it, and how a step says that it waits.

Names and spellings are those of the bare-metal API (Ironic v1), because
clients compare the exact strings. All is imported from here, whatever module of this package it
stands in.
"""

from __future__ import annotations

from deploysteps.states.questions import *
from deploysteps.states.table import *
from deploysteps.states.waits import *
