"""``acp-proxy chain``: the proxy as a component of a conductor, which starts the agent.

It ends when its input does, when the conductor reads no more, or on a signal. Open requests are then answered, and the
rest is recorded and delivered. Every wait is bounded, except for a conductor that stays open and does not read.
"""

import queue
import signal
import sys
import threading
from contextlib import suppress

from acp_proxy.shell import greeting, lasting, proxy
from acp_proxy.shell.junction import Junction
from acp_proxy.shell.signals import ENDING_SIGNALS

_HELD_SECONDS = 1.0
"""How long a conductor that does not read may hold up the end after a signal."""
_WORK_SECONDS = 1.0
"""For the store's remaining work at the end; marks tell the next process what was left."""
_TICK = 0.05 if sys.platform == "win32" else None
"""Seconds of a wait. On Windows, a signal does not end one."""
_OVER, _DELIVERED = 0, -1
"""News that are not the number of a signal: one side has ended, the conductor has everything."""


def serve_chain(given: dict[str, str]) -> int:
    """Relay between the conductor's two sides until the end. Returns the exit code. ``given``: the options' values."""
    news: queue.SimpleQueue[int] = queue.SimpleQueue()  # its put is safe in a signal handler
    for each in ENDING_SIGNALS:
        signal.signal(each, lambda number, _: news.put(number))
    junction = Junction(greeting.STDIN, greeting.STDOUT, greeting.warn, lambda: news.put(_OVER))
    recorder, relay = proxy.build(
        [],
        given,
        greeting.prepare(given, is_chained=True),
        from_client=junction.from_client,
        to_client=junction.to_client,
        from_agent=junction.from_agent,
        to_agent=junction.to_agent,
    )
    relay.notify = lambda: news.put(_OVER)
    relay.start()
    junction.start()
    lasting.load_telling()
    if recorder is not None:
        lasting.load_stores()
        relay.synchronize()
    lasting.collect_garbage()
    last = _next(news)
    why = f"acp-proxy was ended by {signal.Signals(last).name}" if last > 0 else "the conductor has ended the chain"

    def end() -> None:
        junction.stop()
        relay.client.ended.wait()
        relay.agent.ended.wait()
        relay.finish(f"is out of reach: {why}")
        relay.finish_work(_WORK_SECONDS)
        relay.close()
        junction.deliver()
        news.put(_DELIVERED)

    ending = threading.Thread(target=end, name="the end", daemon=True)
    ending.start()
    while last == _OVER:
        last = _next(news)
    if last == _DELIVERED:
        return 0
    ending.join(_HELD_SECONDS)
    return 128 + last


def _next(news: "queue.SimpleQueue[int]") -> int:
    while True:
        with suppress(queue.Empty):
            return news.get(timeout=_TICK)
