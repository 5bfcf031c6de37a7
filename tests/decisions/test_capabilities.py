"""Capabilities added to the agent's offer: nothing else in the line changes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.decisions.capabilities import (
    AGENT,
    NEVER,
    STORE,
    Modes,
    Settings,
    add_capabilities,
    choose_served_here,
    read_offer,
)
from tests.conversation import (
    LOADS,
    RELEASE,
    RESUMES,
    CoreConversation,
    initialize_answer,
    line,
    raw,
    request,
    respell,
    result,
)
from tests.decisions.load.loading import DEEP
from tests.strategies import spelled, texts, values

OURS = {"version": RELEASE}


def amended_result(capabilities: object, **more: object) -> Any:
    """The result of initialize that the client gets for an agent with these capabilities."""
    return json.loads(CoreConversation().initialize(capabilities, **more).all.to_client)["result"]


def serves(*names: str) -> dict[str, Any]:
    return {"acp-proxy": OURS | {"serves": list(names)}}


# --- additions


@pytest.mark.parametrize(
    ("served_by_agent", "added"),
    [
        ((), ["list", "delete", "load"]),
        (("resume",), ["list", "delete", "load"]),
        (("list",), ["delete", "load"]),
        (("list", "resume"), ["delete", "load"]),
        (("delete",), ["list", "load"]),
        (("load",), ["list", "delete"]),
        (("load", "resume"), ["list", "delete"]),
        (("list", "load"), ["delete"]),
        (("list", "delete"), ["load"]),
        (("list", "delete", "load"), []),
        (("list", "delete", "resume"), ["load"]),
        (("list", "delete", "load", "resume", "close", "fork"), []),
        (("close", "fork"), ["list", "delete", "load"]),
    ],
)
def test_capabilities_that_the_agent_lacks_are_added(served_by_agent: tuple[str, ...], added: list[str]) -> None:
    capabilities = {
        "loadSession": "load" in served_by_agent,
        "sessionCapabilities": {name: {} for name in served_by_agent if name != "load"},
    }
    result = amended_result(capabilities)["agentCapabilities"]
    assert result["loadSession"] is ("load" in served_by_agent or "load" in added)
    assert set(result["sessionCapabilities"]) == {*served_by_agent, *added} - {"load"}
    assert result.get("_meta") == (serves(*added) if added else None)


EVERYTHING = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}}}


@pytest.mark.parametrize(
    ("modes", "offered", "added"),
    [
        (Modes(list=AGENT), {}, ["delete", "load"]),
        (Modes(load=AGENT), RESUMES, ["list", "delete"]),
        (Modes(delete=AGENT), {}, ["list", "load"]),
        (Modes(AGENT, AGENT, AGENT, AGENT), {}, []),
        (Modes(AGENT, AGENT, AGENT, AGENT), RESUMES, []),
        (Modes(list=STORE, delete=STORE), EVERYTHING, ["list", "delete"]),
        (Modes(load=STORE), EVERYTHING, []),
        (Modes(load=STORE), {}, ["list", "delete", "load"]),
        (Modes(handover=NEVER), {}, ["list", "delete"]),
        (Modes(load=STORE, handover=NEVER), {}, ["list", "delete"]),
        (Modes(handover=NEVER), RESUMES, ["list", "delete", "load"]),
        (Modes(resume=STORE), LOADS, ["list", "delete", "resume"]),
        (Modes(resume=STORE), EVERYTHING, []),
        (Modes(resume=STORE), {}, ["list", "delete", "load"]),
        (Modes(resume=AGENT), LOADS, ["list", "delete"]),
    ],
)
def test_the_modes_decide_what_is_added_as_far_as_the_agent_allows(
    modes: Modes, offered: Any, added: list[str]
) -> None:
    talk = CoreConversation(modes=modes).initialize(offered)
    capabilities = json.loads(talk.all.to_client)["result"]["agentCapabilities"]
    ours = capabilities.get("_meta", {}).get("acp-proxy", {}).get("serves", [])
    assert ours == added
    had = set(offered.get("sessionCapabilities", {}))
    assert set(capabilities.get("sessionCapabilities", {})) == had | (set(added) - {"load"})
    assert capabilities.get("loadSession", False) == (offered.get("loadSession", False) or "load" in added)


def test_a_native_capability_served_on_request_gets_only_our_mark() -> None:
    answer = (
        b'{"id":0,"result":{"protocolVersion":1,"agentCapabilities":'
        b'{"loadSession":true,"sessionCapabilities":{"list":{"x":1.0},"delete":{}}}}}\n'
    )
    talk = CoreConversation(modes=Modes(list=STORE))
    talk.client.say(request(0, "initialize"))
    mark = b',"_meta":{"acp-proxy":{"version":"1.2.3","serves":["list"]}}}}}\n'
    assert talk.agent.say(answer).to_client == answer.removesuffix(b"}}}\n") + mark


@pytest.mark.parametrize("marker", [None, False])
def test_null_or_false_means_that_the_agent_lacks_a_capability(marker: object) -> None:
    capabilities = {"loadSession": marker, "sessionCapabilities": {"list": marker, "delete": marker, "resume": {}}}
    assert amended_result(capabilities)["agentCapabilities"] == {
        "loadSession": True,
        "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}},
        "_meta": serves("list", "delete", "load"),
    }


@pytest.mark.parametrize("marker", [{}, True, {"_meta": {"x": 1}}, [], 0, ""])
def test_any_other_value_means_that_the_agent_has_a_capability(marker: object) -> None:
    everything = {"loadSession": marker, "sessionCapabilities": {"list": marker, "delete": marker, "resume": marker}}
    assert amended_result(everything)["agentCapabilities"] == everything


def test_resume_is_not_added_by_default() -> None:
    assert "resume" not in amended_result({"loadSession": True})["agentCapabilities"]["sessionCapabilities"]


@pytest.mark.parametrize(
    "capabilities", [None, {}, {"sessionCapabilities": None}, {"sessionCapabilities": {}}, {"_meta": None}]
)
def test_absent_or_null_capabilities_are_created(capabilities: object) -> None:
    assert amended_result(capabilities)["agentCapabilities"] == {
        "loadSession": True,
        "sessionCapabilities": {"list": {}, "delete": {}},
        "_meta": serves("list", "delete", "load"),
    }


def test_a_result_without_capabilities_gets_them_at_its_end() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    step = talk.agent.say(b'{"jsonrpc":"2.0","id":0,"result":{ "protocolVersion" : 1 }}\n')
    assert step.to_client == (
        b'{"jsonrpc":"2.0","id":0,"result":{ "protocolVersion" : 1 ,"agentCapabilities":'
        b'{"_meta":{"acp-proxy":{"version":"1.2.3","serves":["list","delete","load"]}},'
        b'"loadSession":true,"sessionCapabilities":{"list":{},"delete":{}}}}}\n'
    )


def test_our_mark_is_added_to_the_agents_meta() -> None:
    result = amended_result({"_meta": {"agent.example": {"deep": [1]}}})
    assert result["agentCapabilities"]["_meta"] == {"agent.example": {"deep": [1]}} | serves("list", "delete", "load")


# --- when nothing is added


def test_the_offer_of_an_agent_with_every_capability_passes_byte_for_byte() -> None:
    everything = b'{"loadSession" : true,"sessionCapabilities":{"list":{},"delete":{}}}'
    answer = b'{ "id":0, "result": {"protocolVersion":1,"agentCapabilities":%s}}\r\n' % everything
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(answer).to_client == answer


@pytest.mark.parametrize("how", [{"serves": False}, {"records": False}, {"records": False, "serves": False}])
def test_nothing_is_added_while_serving_or_recording_is_off(how: dict[str, Any]) -> None:
    talk = CoreConversation(**how)
    answer = respell(initialize_answer(0, RESUMES))
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(answer).to_client == answer


@pytest.mark.parametrize("version", [2, 0, "1", None, True, [1], {}, 1.5])
def test_nothing_is_added_for_another_protocol_version(version: object) -> None:
    answer = respell(result(0, {"protocolVersion": version, "agentCapabilities": RESUMES}))
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(answer).to_client == answer


@pytest.mark.parametrize("value", [None, [], "x", 1, {}])
def test_a_result_without_a_protocol_version_passes(value: object) -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(result(0, value)).to_client == line(result(0, value))


def test_a_line_too_deep_to_amend_passes_and_nothing_is_served() -> None:
    deep = b"[" * DEEP + b"]" * DEEP
    answer = b'{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"_meta":{"x":%s}}}}\n' % deep
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(answer).to_client == answer
    assert talk.client.say(request(1, "session/list")).to_agent == line(request(1, "session/list"))


def test_only_the_answer_to_initialize_is_amended() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"), request("0", "other/method"))
    assert talk.agent.say(initialize_answer("0", RESUMES)).to_client == line(initialize_answer("0", RESUMES))
    assert talk.agent.say(initialize_answer(0.0, RESUMES)).to_client == line(initialize_answer(0.0, RESUMES))
    assert talk.agent.say(initialize_answer(0, RESUMES)).to_client != line(initialize_answer(0, RESUMES))
    assert talk.agent.say(initialize_answer(0, RESUMES)).to_client == line(initialize_answer(0, RESUMES))


# --- the bytes of the line


def test_no_other_byte_changes() -> None:
    before = (
        b'\xef\xbb\xbf{"result" : {"agentCapabilities":{"sessionCapabilities":{ "resume":{ } },'
        b'"loadSession":false, "big":123456789012345678901234567890,"f":1.0,"e":1E5,"twice":1,"twice":2,'
        b'"s":"\\ud800 \\u2028 \xe2\x80\xa8 \xff"}, "protocolVersion":1},\t"id":0 }\r\n'
    )
    after = (
        b'\xef\xbb\xbf{"result" : {"agentCapabilities":{"sessionCapabilities":{ "resume":{ } ,"list":{},"delete":{}},'
        b'"loadSession":true, "big":123456789012345678901234567890,"f":1.0,"e":1E5,"twice":1,"twice":2,'
        b'"s":"\\ud800 \\u2028 \xe2\x80\xa8 \xff","_meta":{"acp-proxy":{"version":"1.2.3",'
        b'"serves":["list","delete","load"]}}}, "protocolVersion":1},\t"id":0 }\r\n'
    )
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(before).to_client == after


def test_the_last_duplicate_key_counts() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    step = talk.agent.say(
        b'{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},'
        b'"agentCapabilities":{"sessionCapabilities":{"list":{},"delete":{},"resume":{}}}}}\n'
    )
    assert step.to_client == (
        b'{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},'
        b'"agentCapabilities":{"sessionCapabilities":{"list":{},"delete":{},"resume":{}},'
        b'"_meta":{"acp-proxy":{"version":"1.2.3","serves":["load"]}},"loadSession":true}}}\n'
    )


markers: st.SearchStrategy[Any] = st.none() | st.booleans() | st.just({}) | st.dictionaries(texts, values, max_size=2)
session_capabilities = st.none() | st.dictionaries(
    st.sampled_from(["list", "delete", "resume", "close", "_meta"]) | texts, markers, max_size=5
)
agent_capabilities = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "loadSession": markers,
        "sessionCapabilities": session_capabilities,
        "_meta": st.none() | st.dictionaries(texts, values, max_size=3),
        "promptCapabilities": values,
    },
)
results = st.fixed_dictionaries(
    {"protocolVersion": st.just(1)}, optional={"agentCapabilities": agent_capabilities, "authMethods": values}
)


@given(spelled(st.fixed_dictionaries({"id": st.just(0), "result": results})))
def test_an_amended_line_equals_the_original_plus_the_additions(text: str) -> None:
    answer = text.encode("utf-8") + b"\n"
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    after = talk.agent.say(answer).to_client
    result = json.loads(answer)["result"]
    added = choose_served_here(read_offer(result), Modes())
    if not added:
        assert after == answer
    assert json.dumps(json.loads(after)["result"]) == json.dumps(add_expected(result, added))


def add_expected(result: dict[str, Any], added: tuple[str, ...]) -> dict[str, Any]:
    """The result with the additions, built from values; new keys come last."""
    if not added:
        return result
    capabilities = dict(result.get("agentCapabilities") or {})
    ours = {"version": RELEASE, "serves": list(added)}
    capabilities["_meta"] = with_all(capabilities.get("_meta"), {"acp-proxy": ours})
    if "load" in added:
        capabilities["loadSession"] = True
    offered: dict[str, Any] = {name: {} for name in ("list", "delete") if name in added}
    if offered:
        capabilities["sessionCapabilities"] = with_all(capabilities.get("sessionCapabilities"), offered)
    return result | {"agentCapabilities": capabilities}


def with_all(there: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """``there``, or an empty object, with these members added."""
    return (there or {}) | dict(more)


@given(agent_capabilities)
def test_additions_keep_every_original_byte(capabilities: Any) -> None:
    before = raw(initialize_answer(0, capabilities or {}))
    offer = read_offer(json.loads(before)["result"])
    modes = Modes(list=STORE) if not choose_served_here(offer, Modes()) else Modes()
    after, _ = add_capabilities(before, offer, Settings(records=True, serves=True, proxy_version=RELEASE, modes=modes))
    if b"null" not in before and b"false" not in before:
        rest = iter(after)
        assert all(byte in rest for byte in before)


# --- reading an offer


@pytest.mark.parametrize("value", [None, [], "x", 3, {"agentCapabilities": []}, {"agentInfo": "x"}])
def test_an_invalid_offer_reads_as_empty(value: object) -> None:
    offer = read_offer(value)
    assert (offer.served_by_agent, offer.name, offer.agent_version, offer.supports_directories) == (
        frozenset(),
        None,
        None,
        False,
    )


@given(values)
def test_reading_an_offer_never_raises(value: Any) -> None:
    read_offer(value)
    read_offer({"agentCapabilities": value, "agentInfo": value})
    read_offer({"agentCapabilities": {"sessionCapabilities": value, "loadSession": value}})


def test_the_agents_name_and_release_are_read() -> None:
    offer = read_offer({"protocolVersion": 1, "agentInfo": {"name": "agent", "version": "2.0", "title": "An agent"}})
    assert (offer.name, offer.agent_version) == ("agent", "2.0")


def test_an_empty_name_is_none() -> None:
    assert read_offer({"agentInfo": {"name": ""}}).name is None
