"""Who gets a page: every way to ask without the right to it is refused, and says nothing of what is there."""

from urllib.parse import urlsplit

import pytest
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from acp_proxy.tools.web.access import COOKIE, Access, Guard

PORT = 4321
HOST = f"127.0.0.1:{PORT}"


@pytest.fixture
def access() -> Access:
    return Access(PORT)


@pytest.fixture
def client(access: Access) -> TestClient:
    router = Router([Route(access.root, lambda request: PlainTextResponse("a page"), methods=["GET", "POST"])])
    return TestClient(Guard(router, access), base_url=f"http://{HOST}", follow_redirects=False)


def redeem(client: TestClient, access: Access) -> str:
    """Open the link. Returns the cookie's value."""
    answer = client.get(access.link)
    assert (answer.status_code, answer.headers["location"]) == (303, access.root)
    return answer.cookies[COOKIE]


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_do_not_get(client: TestClient, access: Access) -> None:
    answer = client.get(access.link)
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{COOKIE}=")
    assert {attribute.lower() for attribute in attributes} == {"httponly", "samesite=strict", f"path={access.root}"}
    assert urlsplit(access.link).query.removeprefix("token=") not in str(answer.headers)
    assert client.get(access.root).text == "a page"


def test_the_link_may_lead_to_another_page_than_the_list() -> None:
    access = Access(PORT, "session/a/b")
    guarded = TestClient(Guard(Router(), access), base_url=f"http://{HOST}", follow_redirects=False)
    assert guarded.get(access.link).headers["location"] == f"{access.root}session/a/b"


def test_the_link_works_once(client: TestClient, access: Access) -> None:
    redeem(client, access)
    answer = client.get(access.link)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert "used already" in answer.text


@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token={0}x", "?token={0}&token={0}", "?Token={0}"])
def test_a_wrong_token_is_refused_and_leaves_the_link_as_it_was(client: TestClient, access: Access, query: str) -> None:
    token = urlsplit(access.link).query.removeprefix("token=")
    answer = client.get(f"/{query.format(token)}")
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    redeem(client, access)


@pytest.mark.parametrize("path", ["", "x", "session/a/b", "web.js", "..%2f", "%2e%2e%2f", "nowhere"])
def test_without_the_cookie_every_path_is_refused_alike(client: TestClient, access: Access, path: str) -> None:
    answer = client.get(f"{access.root}{path}")
    assert answer.status_code == 403
    assert answer.text == client.get("/somewhere/else").text
    assert "If they are open in a tab, go on there, or go back.\nOtherwise: run acp-proxy web again" in answer.text
    for cookie in (f"{COOKIE}=", f"{COOKIE}=x", "x", f"other={COOKIE}", "=;;=", f"{COOKIE}"):
        assert client.get(access.root, headers={"cookie": cookie}).status_code == 403


def test_the_cookie_is_found_between_those_of_other_servers(client: TestClient, access: Access) -> None:
    secret = redeem(client, access)
    client.cookies.clear()
    for cookies in (f'a="x;, y{{; {COOKIE}={secret}', f"{COOKIE}=old; {COOKIE}={secret}; =;"):
        assert client.get(access.root, headers={"cookie": cookies}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        f"127.0.0.1.evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"127.0.0.1:{PORT}@evil.example",
        f"[::1]:{PORT}",
        f"127.1:{PORT}",
        f"2130706433:{PORT}",
        "",
    ],
)
def test_another_host_is_refused_even_with_the_cookie(client: TestClient, access: Access, host: str) -> None:
    redeem(client, access)
    assert client.get(access.root, headers={"host": host}).status_code == 403
    assert client.get(access.link, headers={"host": host}).status_code == 403


def test_two_hosts_or_none_are_refused(access: Access) -> None:
    for hosts in ([], [HOST, HOST], [HOST, "evil.example"]):
        headers = Headers(raw=[(b"host", host.encode()) for host in hosts])
        assert access.find_refusal("GET", "/", headers) is not None


def test_localhost_is_this_server_too(client: TestClient, access: Access) -> None:
    assert client.get(access.link, headers={"host": f"LOCALHOST:{PORT}"}).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1"},
        {"origin": f"https://{HOST}"},
        {"origin": f"http://localhost:{PORT}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": ""},
    ],
)
def test_a_request_of_another_page_is_refused_even_with_the_cookie(
    client: TestClient, access: Access, headers: dict[str, str]
) -> None:
    redeem(client, access)
    answer = client.get(access.root, headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("headers", [{"origin": f"http://{HOST}"}, {"sec-fetch-site": "same-origin"}, {}])
def test_our_own_pages_may_ask(client: TestClient, access: Access, headers: dict[str, str]) -> None:
    redeem(client, access)
    assert client.get(access.root, headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_every_method_but_get_is_refused(client: TestClient, access: Access, method: str) -> None:
    secret = redeem(client, access)
    headers = {"access-control-request-method": "GET", "x-http-method-override": "GET", "cookie": f"{COOKIE}={secret}"}
    refusal = access.find_refusal(method, access.root, Headers({"host": HOST, **headers}))
    assert refusal is not None
    assert refusal.status == 405
    if method != "get":  # the client makes it upper case
        answer = client.request(method, access.root, headers=headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_head_request_does_not_use_up_the_link(client: TestClient, access: Access) -> None:
    assert client.head(access.link).status_code == 405
    redeem(client, access)


def test_a_websocket_is_not_accepted(client: TestClient, access: Access) -> None:
    secret = redeem(client, access)
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(access.root, headers={"cookie": f"{COOKIE}={secret}"}),
    ):
        pass


def test_every_answer_has_a_policy_and_is_not_stored(client: TestClient, access: Access) -> None:
    for answer in (client.get(access.link), client.get(access.root), client.get("/"), client.post(access.root)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_each_server_has_secrets_of_its_own() -> None:
    first, second = Access(PORT), Access(PORT)
    assert first.link != second.link
    assert first.root != second.root
    assert len(urlsplit(first.link).query) >= 40
