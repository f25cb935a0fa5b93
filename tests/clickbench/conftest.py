from __future__ import annotations

import pytest

from clickbench.model.hits import generate_table


@pytest.fixture(scope="session")
def hits():
    """100,000 rows, which is two blocks."""
    return generate_table(100_000)
