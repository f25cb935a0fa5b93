"""`python -m lm_datafusion`: the same commands as the `lm-datafusion` script."""

from __future__ import annotations

import sys

from lm_datafusion.cli.console import main

sys.exit(main())
