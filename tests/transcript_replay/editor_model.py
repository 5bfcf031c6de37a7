"""How an editor keeps a conversation: a list of entries, as Zed builds it.

- A chunk goes to the last entry if that is a message of the same kind and messageId, else it begins one. Texts that
  carry nothing else run together.
- Tool calls are upserted by id and keep their place. A start states title, kind, status, content and locations, with
  defaults for what it leaves out; any other field, and every field of an update, counts only when it has a value.
- An update with a reference to an unknown terminal is dropped whole, and so is an update of an unknown call. An agent
  can make a terminal of its own and write into it, in the ``_meta`` of updates.
- Compactions are upserted by id and keep their place: null takes a value away, a chunk adds a block to the summary.
- The plan is replaced; it is no entry. Kinds that the editor does not know are entries here: their place counts.
"""

import json
from dataclasses import dataclass, field
from typing import Any

Value = dict[str, Any]

_MESSAGES = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_DEFAULTS: Value = {"kind": "other", "status": "pending", "content": [], "locations": []}
_NOT_SHOWN = ("current_mode_update", "config_option_update", "session_info_update", "notice", "usage_update")


def parsed(line: bytes) -> Any:
    """A message parsed so that ``1`` and ``1.0`` differ and no number loses a digit."""
    return json.loads(line, parse_int=lambda digits: ["int", digits], parse_float=lambda digits: ["float", digits])


@dataclass
class Editor:
    entries: list[Value] = field(default_factory=list)
    plan: Any = None
    commands: Any = None
    dropped: int = 0
    terminals: dict[str, str] = field(default_factory=dict)

    def apply(self, update: Value) -> None:
        kind = update["sessionUpdate"]
        if kind in _MESSAGES:
            self._chunk(kind, update)
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update, is_start=kind == "tool_call")
        elif kind in ("compaction_update", "compaction_summary_chunk"):
            self._compaction(update)
        elif kind == "plan":
            self.plan = update["entries"]
        elif kind == "available_commands_update":
            self.commands = update["availableCommands"]
        elif kind not in _NOT_SHOWN:
            self.entries.append({"other": update})

    def _chunk(self, kind: str, update: Value) -> None:
        who = {"message": kind, "id": update.get("messageId")}
        if (
            not self.entries
            or {key: self.entries[-1].get(key) for key in who} != who
            or "blocks" not in self.entries[-1]
        ):
            self.entries.append({**who, "blocks": []})
        blocks = self.entries[-1]["blocks"]
        block = _bare(update["content"])
        beside = {
            key: value for key, value in _bare(update).items() if key not in ("sessionUpdate", "content", "messageId")
        }
        if beside:
            blocks.append({"block": block, "beside": beside})
        elif blocks and _is_plain(block) and _is_plain(blocks[-1]):
            blocks[-1] = {**block, "text": blocks[-1]["text"] + block["text"]}
        else:
            blocks.append(block)

    def _tool(self, update: Value, *, is_start: bool) -> None:
        fields = {key: value for key, value in _bare(update).items() if key not in ("sessionUpdate", "toolCallId")}
        known = next((entry for entry in self.entries if entry.get("tool") == update["toolCallId"]), None)
        meta = fields.get("_meta", {})
        if "terminal_info" in meta:
            self.terminals.setdefault(meta["terminal_info"]["terminal_id"], "")
        items = fields.get("content", [])
        is_lost = any(item["type"] == "terminal" and item["terminalId"] not in self.terminals for item in items)
        if is_lost or not (known or is_start):
            self.dropped += 1
            return
        if "terminal_output" in meta:
            id = f"terminal of {update['toolCallId']}"
            self.terminals[id] = self.terminals.get(id, "") + meta["terminal_output"]["data"]
        if known is None:
            known = {"tool": update["toolCallId"]}
            self.entries.append(known)
        if is_start:
            known |= _DEFAULTS
        known |= fields

    def _compaction(self, update: Value) -> None:
        id = update["compactionId"]
        known = next((entry for entry in self.entries if entry.get("compaction") == id), None)
        if known is None:
            known = {"compaction": id, "status": "in_progress", "summary": []}
            self.entries.append(known)
        if update["sessionUpdate"] == "compaction_summary_chunk":
            known["summary"] = [*known["summary"], update["content"]]
            return
        for key in update.keys() - {"sessionUpdate", "compactionId"}:
            if update[key] is None:
                known.pop(key, None)
            else:
                known[key] = update[key]
        known.setdefault("summary", [])


def _bare(value: Value) -> Value:
    """The value without members that are null."""
    return {key: item for key, item in value.items() if item is not None}


def _is_plain(block: Value) -> bool:
    return block.keys() == {"type", "text"}
