"""The user's home directory is a tilde in what is shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.views.conversation import SpokenMessage
from tests.views.turns import message, turn

ADA = HomeHider("/home/ada/project", "/srv/people/bob")
LINUX = "/home/eve/x"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ada", "~"),
        ("see /home/ada/x, /home/eve and /home/adam.", "see ~/x, ~ and ~."),
        ("/Users/ada/x C:\\Users\\ada\\x c:/users/ada/x", "~/x ~\\x ~/x"),
        ("/srv/people/bob/x /srv/people/bobby/x", "~/x /srv/people/bobby/x"),
        ("/mnt/c/Users/eve/x /var/home/eve/x \\\\wsl$\\Ubuntu\\home\\eve\\x", "~/x ~/x ~\\x"),
        ("file:///home/eve/a.png file:///c%3A/Users/eve/a.png", "file:///~/a.png file:///~/a.png"),
        ("gcc -I/home/eve/i --out=/home/eve/o 'a/home/ada/x'", "gcc -I~/i --out=~/o 'a~/x'"),
        (r'{"path":"\/home\/eve\/x","to":"C:\\\\Users\\\\eve\\\\x"}', r'{"path":"~\/x","to":"~\\\\x"}'),
    ],
)
def test_a_home_directory_becomes_a_tilde(text: str, left: str) -> None:
    assert ADA.hide(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/home/eve https://home/ada http://h:80/Users/1",
        "app/home/page.tsx ../home/x ${BASE}/home/x",
        "/home /home/ /homeless/x /root/x",
        "/home/" + "aB3+" * 300,
    ],
)
def test_other_paths_and_addresses_stay(text: str) -> None:
    assert ADA.hide(text) == text


def test_the_directory_tells_which_home_is_the_users() -> None:
    assert HomeHider("/root/work", "/").hide("/root/x app/root/x /rooted") == "~/x app/root/x /rooted"
    spaced = HomeHider("C:\\Users\\Ada Lovelace\\work", "")
    assert spaced.hide("C:\\Users\\Ada Lovelace\\x file:///c:/users/Ada%20Lovelace/y") == "~\\x file:///~/y"
    assert HomeHider(None, "").hide(LINUX) == "~/x"


def across(*texts: str) -> list[str]:
    """The texts of a message that came in these pieces."""
    [shown] = ADA.hide_in_turns([turn(message("agent", *texts))])
    [hidden] = shown.items
    assert isinstance(hidden, SpokenMessage)
    return [str(block["text"]) for block in hidden.blocks]


def test_a_path_across_pieces_of_a_message_is_hidden_once() -> None:
    assert across("in /ho", "me/e", "ve/x", "", " and /home/eve", "/y") == ["in ~", "", "/x", "", " and ~", "/y"]


@given(st.lists(st.text("/homeva x\\:", max_size=12) | st.sampled_from([LINUX, "/home/ada"]), max_size=6))
def test_the_pieces_of_a_message_are_read_as_one_text(texts: list[str]) -> None:
    assert "".join(across(*texts)) == ADA.hide("".join(texts))
