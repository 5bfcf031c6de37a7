"""What the terminal of browse does with the store's answers."""

import pytest

from acp_proxy.cli.session_filter import make_filter
from acp_proxy.errors import Unreadable
from acp_proxy.tools.browse.state import BrowseState
from acp_proxy.tools.browse.store_worker import BrowseStore
from acp_proxy.tools.browse.terminal import BrowseTerminal
from tests.stored import WholeStore, store_session


@pytest.mark.parametrize("is_refresh", [True, False])
def test_a_list_that_cannot_be_read_again_is_a_message_only_if_the_user_did_something(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, is_refresh: bool
) -> None:
    store_session(store, "s-site", ("Mend the login", []))
    terminal = BrowseTerminal(BrowseStore(store.root, make_filter()), BrowseState())

    def fail(*_: object) -> None:
        raise Unreadable("the disk is busy")

    monkeypatch.setattr(BrowseStore, "list_rows", fail)
    terminal._read_rows(archived=False, is_refresh=is_refresh)
    assert terminal._changes.empty() is is_refresh
