// An agent of protocol version 2, made with the official TypeScript SDK: node agent_v2.mjs MEMORY [WHAT…]
//
// MEMORY: a JSON file with the updates of each session, which survives the process. WHAT may have:
//   v1: also speaks version 1, with a router    only1: speaks only version 1    forgets: replays and lists nothing    last: forgets the last turn
//   restarts: remembers nothing of other processes
//   deletes: serves session/delete    titles: its list has titles    nosessions: serves no sessions    exits: exits in a turn whose prompt says "exit"

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk/experimental/v2";

const [memory, ...what] = process.argv.slice(2);
const does = (word) => what.includes(word);
const info = { name: "second", version: "2.0.0" };
const sessions = existsSync(memory) && !does("restarts") ? JSON.parse(readFileSync(memory, "utf8")) : {};
const keep = () => writeFileSync(memory, JSON.stringify(sessions));
const { agent: methods, client: clients } = acp.methods;
const text = (said) => ({ type: "text", text: said });

/** What a turn sends, in order. Chunks and whole messages, a call that clears a field, its terminal, a plan. */
function turn(number, prompt) {
  const id = (name) => `${name}-${number}`;
  const said = prompt.map((block) => block.text ?? "").join("");
  return [
    { sessionUpdate: "user_message", messageId: id("u"), content: prompt },
    { sessionUpdate: "agent_thought_chunk", messageId: id("t"), content: text("Let me ") },
    { sessionUpdate: "agent_thought_chunk", messageId: id("t"), content: text("think.") },
    { sessionUpdate: "plan_update", plan: { type: "items", planId: id("p"), entries: [{ content: "look", priority: "high", status: "pending" }] } },
    { sessionUpdate: "tool_call_update", toolCallId: id("c"), title: "Run the tests", kind: "execute", status: "pending", rawInput: { command: "make" } },
    { sessionUpdate: "terminal_update", terminalId: id("x"), command: "make" },
    { sessionUpdate: "tool_call_content_chunk", toolCallId: id("c"), content: { type: "terminal", terminalId: id("x") } },
    { sessionUpdate: "terminal_output_chunk", terminalId: id("x"), data: Buffer.from("12 passed\n").toString("base64") },
    { sessionUpdate: "terminal_update", terminalId: id("x"), exitStatus: { exitCode: 0 } },
    { sessionUpdate: "tool_call_update", toolCallId: id("c"), status: "completed", rawInput: null },
    { sessionUpdate: "plan_update", plan: { type: "items", planId: id("p"), entries: [{ content: "look", priority: "high", status: "completed" }] } },
    { sessionUpdate: "agent_message_chunk", messageId: id("a"), content: text("All tests ") },
    { sessionUpdate: "agent_message_chunk", messageId: id("a"), content: text("pss") },
    { sessionUpdate: "agent_message", messageId: id("a"), content: [text(`All tests pass. You said: ${said}`)] },
  ];
}

const second = acp
  .agent({ name: "second" })
  .onRequest(methods.initialize, () => ({
    protocolVersion: 2,
    info,
    capabilities: does("nosessions") ? {} : { session: does("deletes") ? { delete: {} } : {} },
  }))
  .onRequest(methods.session.new, ({ params }) => {
    const sessionId = `s${Object.keys(sessions).length + 1}`;
    sessions[sessionId] = { cwd: params.cwd, turns: [] };
    keep();
    return { sessionId, configOptions: [] };
  })
  .onRequest(methods.session.list, () => ({
    sessions: does("forgets")
      ? []
      : Object.entries(sessions).map(([sessionId, { cwd }]) => ({ sessionId, cwd, ...(does("titles") ? { title: "Its own" } : {}) })),
  }))
  .onRequest(methods.session.resume, async ({ params, client }) => {
    const { sessionId } = params;
    if (!(sessionId in sessions)) throw acp.RequestError.resourceNotFound(sessionId);
    const tell = (update) => client.notify(clients.session.update, { sessionId, update });
    const turns = does("forgets") || !params.replayFrom ? [] : sessions[sessionId].turns;
    for (const updates of does("last") ? turns.slice(0, -1) : turns) for (const update of updates) await tell(update);
    await tell({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
    return {};
  })
  .onRequest(methods.session.close, () => ({}))
  .onRequest(methods.session.prompt, async ({ params, client }) => {
    const { sessionId, prompt } = params;
    const known = sessions[sessionId];
    if (known === undefined) throw acp.RequestError.resourceNotFound(sessionId);
    const tell = (update) => client.notify(clients.session.update, { sessionId, update });
    const [echo, ...rest] = turn(known.turns.length + 1, prompt);
    await tell({ sessionUpdate: "state_update", state: "running" });
    await tell(echo);
    setImmediate(async () => {
      for (const update of rest) await tell(update);
      if (does("exits") && prompt.some((block) => block.text?.includes("exit"))) process.exit(3);
      known.turns.push([echo, ...rest]);
      keep();
      await tell({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
    });
    return { messageId: echo.messageId };
  });
if (does("deletes")) {
  second.onRequest(methods.session.delete, ({ params }) => {
    delete sessions[params.sessionId];
    keep();
    return {};
  });
}

async function ofVersion1() {
  const v1 = await import("@agentclientprotocol/sdk"); // slow, and most tests need no version 1
  return v1
    .agent({ name: "second" })
    .onRequest(v1.methods.agent.initialize, () => ({ protocolVersion: 1, agentInfo: info, agentCapabilities: {} }))
    .onRequest(v1.methods.agent.session.new, () => ({ sessionId: `first-${Object.keys(sessions).length + 1}` }))
    .onRequest(v1.methods.agent.session.prompt, async ({ params, client }) => {
      const content = text("As version 1.");
      await client.notify(v1.methods.client.session.update, {
        sessionId: params.sessionId,
        update: { sessionUpdate: "agent_message_chunk", content },
      });
      return { stopReason: "end_turn" };
    });
}

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
if (does("only1")) acp.agentProtocolRouter().withV1(await ofVersion1()).connect(stream);
else if (does("v1")) acp.agentProtocolRouter().withV1(await ofVersion1()).withV2(second).connect(stream);
else second.connect(stream);
