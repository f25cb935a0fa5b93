"""obstore's stores as DataFusion's."""

from __future__ import annotations

import pytest

from lm_datafusion.engine.object_stores import adapted
from lm_datafusion.errors import OptionError

stores = pytest.importorskip("obstore.store", reason="the extra object-store is not installed")
AZURE = {"account_name": "me", "account_key": "aGlkZGVu"}


def test_a_container_is_known_by_its_name():
    assert adapted(stores.AzureStore("logs", **AZURE))[2] == "logs"


def test_a_setting_that_datafusion_does_not_know_is_refused():
    store = stores.AzureStore("logs", endpoint="http://127.0.0.1:1", **AZURE)
    with pytest.raises(OptionError, match=r"no setting endpoint; use lm\.dataset"):
        adapted(store)
