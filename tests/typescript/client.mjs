// What the drivers of this directory have in common: a command run as an agent, with the official TypeScript SDK's client.
//
// Every line that comes is held against the SDK's own schemas, and `malformed` has what does not meet them.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk";
import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v1/schema/zod.gen.js";
import { contains } from "./contains.mjs";

const TIMEOUT = process.platform === "win32" ? 120_000 : 20_000; // milliseconds, for one answer; see acp_proxy/tools/demo/client.py
const words = process.argv.slice(2);
const split = words.indexOf("--");
export const [cwd, ...given] = words.slice(0, split);
const [program, ...args] = words.slice(split + 1);

const { agent, client } = acp.methods;
const FROM_AGENT = {
  [client.session.update]: schema.zSessionNotification,
  [client.session.requestPermission]: schema.zRequestPermissionRequest,
};
const messages = [];
export const malformed = [];

function hold(what, value, expected) {
  const checked = expected ? expected.safeParse(value) : { success: false, error: "unexpected" };
  const read = checked.success && contains(JSON.parse(JSON.stringify(checked.data)), value);
  if (!read) malformed.push(`${what}: ${JSON.stringify(value)}: ${JSON.stringify(checked.data ?? checked.error)}`);
}

function take(line) {
  let message;
  try {
    message = JSON.parse(line);
  } catch (problem) {
    malformed.push(`not JSON: ${line}: ${problem}`);
    return;
  }
  messages.push(message);
  if (message.jsonrpc !== "2.0") malformed.push(`not JSON-RPC: ${line}`);
  if (message.method !== undefined) hold(message.method, message.params, FROM_AGENT[message.method]);
}

/** The bytes as they came, and every line of them taken down. */
function tapped(stdout) {
  let rest = Buffer.alloc(0);
  const tap = new TransformStream({
    transform(data, next) {
      rest = Buffer.concat([rest, data]);
      for (let end; (end = rest.indexOf("\n")) >= 0; rest = rest.subarray(end + 1)) take(rest.subarray(0, end).toString());
      next.enqueue(data);
    },
    flush() {
      if (rest.length) malformed.push(`no newline: ${rest}`);
    },
  });
  return Readable.toWeb(stdout).pipeThrough(tap);
}

async function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no sign of ${what}`)), TIMEOUT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Start the command, talk, and end it: with SIGKILL, or by closing its input. `sdk`: which entry of the SDK talks. */
export async function connected(talk, { kill, sdk = acp }) {
  const child = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.on("exit", (status, signal) => resolve(signal ?? status)));
  const app = sdk
    .client({ name: "editor" })
    .onNotification(client.session.update, () => {})
    .onRequest(client.session.requestPermission, ({ params }) => ({
      outcome: { outcome: "selected", optionId: params.options[0].optionId },
    }));
  try {
    await app.connectWith(sdk.ndJsonStream(Writable.toWeb(child.stdin), tapped(child.stdout)), async (connection) => {
      await talk(connection);
      if (kill) child.kill("SIGKILL");
    });
    child.stdin.end();
    return await inTime(exited, "the end");
  } finally {
    child.kill("SIGKILL");
  }
}

/** One request: its result, and the updates that came before it. */
export async function ask(connection, method, params, expected) {
  const since = messages.length;
  const result = await inTime(connection.request(method, params), method);
  const answer = messages.findIndex((message, at) => at >= since && message.method === undefined);
  hold(method, messages[answer].result, expected);
  const updates = messages.slice(since, answer).filter((message) => message.method === client.session.update);
  return { result, updates: updates.map((message) => message.params.update) };
}

export const initialize = (connection) =>
  ask(
    connection,
    agent.initialize,
    { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {}, clientInfo: { name: "editor", version: "1.0.0" } },
    schema.zInitializeResponse,
  );
export const open = (connection) =>
  ask(connection, agent.session.new, { cwd, mcpServers: [] }, schema.zNewSessionResponse);
export const prompt = (connection, sessionId, text) =>
  ask(connection, agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] }, schema.zPromptResponse);
export const list = (connection) => ask(connection, agent.session.list, { cwd }, schema.zListSessionsResponse);
export const load = (connection, sessionId) =>
  ask(connection, agent.session.load, { sessionId, cwd, mcpServers: [] }, schema.zLoadSessionResponse);
export const remove = (connection, sessionId) =>
  ask(connection, agent.session.delete, { sessionId }, schema.zDeleteSessionResponse);
