"""Every error that crosses a room's border.

An exception takes a positional text, or the field's keyword arguments that
fill the class's ``_msg_fmt``; ``code`` is the HTTP status that the API
answers with. Only text is kept, so that an error can always be stored,
logged and sent. They are imported from here, whatever module of this package they stand in.
"""

from __future__ import annotations

from deploysteps.exceptions.drivers import *
from deploysteps.exceptions.kinds import *
from deploysteps.exceptions.service import *
from deploysteps.exceptions.things import *
