"""The store of a proxy that starts. What follows: tests/end_to_end."""

import threading

import pytest

from acp_proxy import options
from acp_proxy.shell import proxy


def test_a_store_that_hangs_at_the_start_is_named_and_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    given, command = options.parse(["--store", "/far/away", "agent"], {}, {}, options.RUN)
    comes_back, said = threading.Event(), list[str]()
    monkeypatch.setattr(proxy, "Store", lambda root: comes_back.wait())
    monkeypatch.setattr(proxy, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(proxy, "warn", said.append)
    assert proxy._recorder(command, given) is None
    comes_back.set()
    [warning] = said
    assert "away does not answer. Choose another place with --store." in warning
