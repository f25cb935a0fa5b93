"""Settings of a DataFusion session.

In: a session and the name of a setting. Out: its value as text.

Invariant: reading a setting changes nothing and runs no query.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datafusion


def setting(context: datafusion.SessionContext, name: str) -> str:
    """The value of a setting; empty if DataFusion does not show it.

    The session's print has all settings. Asking in SQL would load the information schema, 10 MB.
    """
    found = re.search(rf"^\s*{re.escape(name)} = (.*)$", repr(context), re.MULTILINE)
    return found[1] if found else ""
