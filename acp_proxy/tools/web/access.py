"""Who may read: the browser that opened the link, from this machine, for itself. Everything else is refused.

The server listens on the loopback interface, which any program of any user of this machine can reach, and to which any
page in the user's browser can send requests. So each request must have all of this:

- The method is GET: nothing here changes anything.
- The header Host is this server's own address. A name that a foreign page makes lead here (DNS rebinding) is not.
- The headers Origin and Sec-Fetch-Site, where the browser sends them, say that none but our own pages ask.
- The secret of the cookie. Only whoever opens the link first gets it.

The link works once, since other users may see it in the list of processes when the browser starts. Its secret is not
the cookie's. Cookies do not tell ports apart, so the cookie is for a path that only this server has: no other server of
this machine gets it.
"""

import hmac
import secrets
import threading
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "acp-proxy-web"
_OPEN_AGAIN = "Run acp-proxy web again, and open its new link.\n"
_NO_COOKIE = (
    "Nothing can be shown at this address: the pages are below a path of their own, and only for the browser that "
    "opened the link of acp-proxy web.\n"
    "If they are open in a tab, go on there, or go back.\n"
    f"Otherwise: {_OPEN_AGAIN[:1].lower()}{_OPEN_AGAIN[1:]}"
)
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer. No header lets another origin read (CORS)."""


class Refusal(Struct, frozen=True):
    """An answer to a request that gets no page. ``status``: of HTTP. ``text``: what happened, and what to do."""

    status: int
    text: str


class Access:
    """The secrets of one server, and what it asks of a request."""

    def __init__(self, port: int, first_page: str = "") -> None:
        """``first_page``: the page to which the link leads, from ``root`` on."""
        self._first_page = first_page
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._token = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._is_used = False
        self.root = f"/{secrets.token_hex(8)}/"
        """The path of all pages."""
        self.link = f"http://127.0.0.1:{port}/?token={self._token}"
        """What the user opens."""

    def find_refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Why a request gets no page; None: it may have it. The link itself, at ``/``, is ``redeem``'s."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Refusal(403, f"This is not the address of acp-proxy web. {_OPEN_AGAIN}")
        if method != "GET":
            return Refusal(405, "acp-proxy web only shows sessions: it takes GET.\n")
        if any(origin != f"http://{hosts[0].lower()}" for origin in origins):
            return Refusal(403, "Another page asked for this.\n")
        if any(site not in ("none", "same-origin") for site in headers.getlist("sec-fetch-site")):
            return Refusal(403, "Another page led here. Copy the link into the address bar instead.\n")
        is_ours = path.startswith(self.root)
        if path == "/" or (is_ours and self._has_cookie(headers)):
            return None
        if not is_ours and self._has_cookie(headers):  # no browser sends it there; other programs may
            return Refusal(404, f"There is no such page. The sessions are here: http://{hosts[0].lower()}{self.root}\n")
        return Refusal(403, _NO_COOKIE)

    def redeem(self, query: str) -> Response:
        """The answer to the link: a cookie, and the way to the first page. It works once."""
        tokens = parse_qs(query).get("token", [""])
        is_right = len(tokens) == 1 and _is_equal(tokens[0], self._token)
        with self._lock:
            was_used, self._is_used = self._is_used, self._is_used or is_right
        if not is_right:
            return _refuse(Refusal(403, f"This is not the link of acp-proxy web. {_OPEN_AGAIN}"))
        if was_used:
            text = (
                f"This link works once, in one browser, and was used already. {_OPEN_AGAIN}"
                "If nobody of yours used it, end acp-proxy web now.\n"
            )
            return _refuse(Refusal(403, text))
        response = RedirectResponse(f"{self.root}{self._first_page}", status_code=303)
        response.set_cookie(COOKIE, self._secret, path=self.root, httponly=True, samesite="strict")
        return response

    def _has_cookie(self, headers: Headers) -> bool:
        """Whether one of the cookies is ours. Those of other servers of this machine may have any form."""
        pairs = (cookie.strip().partition("=") for line in headers.getlist("cookie") for cookie in line.split(";"))
        return any(name == COOKIE and _is_equal(value, self._secret) for name, _, value in pairs)


class Guard:
    """Lets those requests through to ``app`` that ``access`` allows, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # "policy violation"
            return
        refusal = self._access.find_refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            app: ASGIApp = _refuse(refusal)
        elif scope["path"] == "/":
            app = self._access.redeem(scope["query_string"].decode("latin-1"))
        else:
            app = self._app

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
            await send(message)

        await app(scope, receive, send_with_headers)


def _refuse(refusal: Refusal) -> Response:
    headers = {"Allow": "GET"} if refusal.status == 405 else None
    return PlainTextResponse(refusal.text, refusal.status, headers)


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
    message["headers"] = [*message.get("headers", ()), *headers]


def _is_equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(), secret.encode())
