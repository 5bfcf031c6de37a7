"""``acp-proxy stats --tokens``, ``--by model`` and ``--prices``: tokens of every kind, and what they cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol import acp, timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.stats.prices import EXAMPLE, Prices, TokenCounts, read_prices
from acp_proxy.transcript.appender import TranscriptAppender
from tests.cli.commands import Command
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, message, store_session

command = Command("stats")
run, get_stdout = command.run, command.get_stdout
DAY = 24 * 60 * 60


def model(name: str) -> dict[str, Any]:
    option = {"id": "model", "category": "model", "currentValue": name, "options": [{"value": name, "name": name}]}
    return {"sessionUpdate": "config_option_update", "configOptions": [option]}


def store_usages(
    store: ProxyStore, session: str, name: str, *usages: dict[str, int], day: int = 0, **more: Any
) -> None:
    """A session of these answers."""
    stamp = timestamps.format_now(EPOCH + day * DAY)
    path = store_session(store, session, (session, [model(name)] if name else []), at=EPOCH + day * DAY, **more)
    transcript = TranscriptAppender(path)
    for number, usage in enumerate(usages, 10):
        told = {"id": number, "result": {"stopReason": "end_turn", "usage": usage}}
        transcript.append(message(stamp, Peer.AGENT, told, acp.PROMPT))
    transcript.close()


def usage(given: int, output: int, **more: int) -> dict[str, int]:
    return {"inputTokens": given, "outputTokens": output, "totalTokens": given + output + sum(more.values()), **more}


def rows(store: ProxyStore, *words: str) -> Any:
    return json.loads(get_stdout(store, *words, "--json"))


def test_all_six_figures_are_counted_by_model(store: ProxyStore) -> None:
    more = {"cachedReadTokens": 3, "cachedWriteTokens": 4, "thoughtTokens": 5}
    store_usages(store, "a", "big", usage(1, 2, **more))
    store_usages(store, "b", "small", usage(10, 20))
    store_usages(store, "c", "big", usage(1, 2))
    told = rows(store, "--by", "model")
    assert [(row["model"], row["turns"], row["totalTokens"]) for row in told["models"]] == [
        ("small", 1, 30),
        ("big", 2, 18),
    ]
    assert told["models"][1] | more == told["models"][1]
    assert told["total"]["inputTokens"] == 12


def test_what_an_agent_does_not_report_is_no_zero(store: ProxyStore) -> None:
    store_usages(store, "a", "", usage(1, 2))
    assert get_stdout(store, "--tokens") == "2023-11\t1\t1\t2\t\t\t\t3\t\n"


@pytest.mark.parametrize(
    ("width", "head", "row"),
    [
        (120, "turns  input  output  cache read  cache write  thought  total  cost", "/a/long/path/of/a/project "),
        (80, "turns  input  output  cache read  cache write  total  cost", "…/path/of/a/project "),
        (40, "input  total  cost", "…/path/of/a/project "),
        (20, "total  cost", "…/of/a/project "),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns(store: ProxyStore, width: int, head: str, row: str) -> None:
    store_usages(store, "a", "", usage(1, 2), cwd="/a/long/path/of/a/project")
    words = ("stats", "--tokens", "--by", "project", "--store", str(store.root))
    first, second, _ = run_on_terminal(*words, columns=width, settings={"ACP_PROXY_PAGER": ""}).splitlines()
    assert first.strip() == head
    assert second.startswith(row)


def test_an_agent_that_counts_the_session_so_far_counts_once(store: ProxyStore) -> None:
    store_usages(store, "a", "", usage(10, 5), usage(30, 9))
    store_usages(store, "b", "", usage(10, 5), usage(8, 2), agent="other")
    told = {
        row["agent"].partition("-")[0]: row["totalTokens"] for row in rows(store, "--tokens", "--by", "agent")["agents"]
    }
    assert told == {"agent": 39, "other": 25}


def quota(*used: tuple[str, int]) -> dict[str, Any]:
    """What an agent says in ``_meta``: tokens of the turn, and the models that it used."""
    models = [{"model": name, "token_count": {"input_tokens": given, "output_tokens": 1}} for name, given in used]
    count = {"input_tokens": sum(given for _, given in used), "output_tokens": len(used)}
    return {"_meta": {"quota": {"token_count": count, "model_usage": models}}}


def test_a_turn_counts_for_the_model_that_the_agent_says_it_used_with_its_cost(store: ProxyStore) -> None:
    cost = {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "EUR"}}
    path = store_session(store, "a", ("a", [model("default"), cost]))
    answer = {"usage": usage(10, 2)} | quota(("small", 3), ("big", 7))
    transcript = TranscriptAppender(path)
    transcript.append(message(timestamps.format_now(EPOCH), Peer.AGENT, {"id": 9, "result": answer}, acp.PROMPT))
    transcript.close()
    [row] = rows(store, "--by", "model")["models"]
    assert (row["model"], row["turns"], row["totalTokens"], row["cost"]) == ("big", 1, 12, {"EUR": 0.5})


def test_tokens_that_an_agent_says_only_in_meta_are_of_the_turn(store: ProxyStore) -> None:
    path = store_session(store, "a", ("a", []))
    transcript = TranscriptAppender(path)
    for given in (10, 20):
        answer = {"stopReason": "end_turn", **quota(("m", given))}
        transcript.append(message(timestamps.format_now(EPOCH), Peer.AGENT, {"id": 9, "result": answer}, acp.PROMPT))
    transcript.close()
    store.mark(store.choose_agent(None, "agent", ""), "a")
    assert rows(store, "--by", "model")["models"][0]["totalTokens"] == 32
    assert get_stdout(store).split("\t")[4] == "32"


@pytest.mark.parametrize(("by", "names"), [("day", ["2023-11-15", "2023-11-14"]), ("project", ["/q", "/p"])])
def test_tokens_are_counted_by_day_and_project(store: ProxyStore, by: str, names: list[str]) -> None:
    store_usages(store, "a", "m", usage(1, 2), cwd="/p")
    store_usages(store, "b", "m", usage(3, 4), day=1, cwd="/q")
    key = "cwd" if by == "project" else by
    assert [row[key] for row in rows(store, "--tokens", "--by", by)[f"{by}s"]] == names
    assert rows(store, "--tokens", "--since", "2023-11-15")["total"]["totalTokens"] == 7
    assert rows(store, "--tokens", "--cwd", "/p")["total"]["totalTokens"] == 3


def test_a_pipe_gets_whole_paths(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_usages(store, "a", "m", usage(1, 1), cwd="/home/ann/p")
    monkeypatch.setenv("HOME", "/home/ann")
    assert get_stdout(store, "--tokens", "--by", "project").split("\t")[0] == "/home/ann/p"


def test_prices_price_what_the_agent_does_not_and_name_what_they_lack(store: ProxyStore, tmp_path: Path) -> None:
    cost = {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "EUR"}}
    store_usages(store, "a", "A-Model", usage(1_000_000, 100_000))
    store_usages(store, "b", "unknown", usage(1, 2))
    store_session(store, "c", ("c", [model("a-model"), cost]))
    prices = tmp_path / "prices.toml"
    prices.write_text(EXAMPLE)
    result = run(store, "--by", "model", "--prices", str(prices))
    assert result.exit_code == 0
    assert [line.split()[-2:] for line in result.stdout.splitlines() if line.startswith("A-Model")] == [["3.50", "USD"]]
    assert [line.split()[-2:] for line in result.stdout.splitlines() if line.startswith("a-model")] == [["0.50", "EUR"]]
    assert result.stderr == "No price: unknown\n"
    told = rows(store, "--prices", str(prices))
    assert told["modelsWithoutPrice"] == ["unknown"]
    assert (told["total"]["priced"], told["total"]["unpricedTokens"]) == ({"USD": 3.5}, 3)


def test_cached_tokens_and_thoughts_count_once_whatever_they_are_a_part_of(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("[models.m]\ninput = 1\noutput = 10\ncached_read = 0.5\nthought = 20\n")
    price = read_prices(path).find("M")
    assert price is not None
    million = 1_000_000
    beside = TokenCounts(million, million, million, 0, million, 4 * million)
    inside = TokenCounts(2 * million, 2 * million, million, 0, million, 4 * million)
    assert price.compute(beside) == price.compute(inside) == 1 + 10 + 0.5 + 20


def test_the_example_is_a_list_of_prices(store: ProxyStore, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(get_stdout(store, "--prices-example"))
    assert isinstance(read_prices(path), Prices)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[models.m]\ninput = 1\n",
        "[models.m]\ninput = 1\noutput = -1\n",
        "[models.m]\ninput = 1\noutput = 2\nx = 3\n",
    ],
)
def test_a_wrong_list_is_explained(store: ProxyStore, tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    result = run(store, "--prices", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"acp-proxy: {path}")
