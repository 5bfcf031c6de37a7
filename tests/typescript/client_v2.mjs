// The main job in protocol version 2, driven by the official TypeScript SDK's client: node client_v2.mjs CWD PROMPT… -- COMMAND…
//
// All prompts but the last, SIGKILL, a new process: list, resume with replay, the last prompt, delete (not with --keep
// among the prompts). With --session=ID among them: only the new process, with that session. With --drafts among them: every draft that acp-proxy serves, in the new process. Prints one JSON report. Every line that comes is held against the SDK's own schemas, and `malformed` has what does not meet them.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const TIMEOUT = process.platform === "win32" ? 120_000 : 20_000; // milliseconds, for one answer
const words = process.argv.slice(2);
const split = words.indexOf("--");
const given = words.slice(0, split);
const keeps = given.includes("--keep");
const drafts = given.includes("--drafts");
const [acp, schema] = await Promise.all(
  drafts
    ? [
        import("@agentclientprotocol/sdk/experimental/v2/unstable"),
        import("./node_modules/@agentclientprotocol/sdk/dist/v2/unstable/schema/zod.gen.js"),
      ]
    : [
        import("@agentclientprotocol/sdk/experimental/v2"),
        import("./node_modules/@agentclientprotocol/sdk/dist/v2/schema/zod.gen.js"),
      ],
);
const old = given.find((word) => word.startsWith("--session="))?.slice("--session=".length);
const [cwd, ...prompts] = given.filter((word) => !word.startsWith("--"));
const [program, ...args] = words.slice(split + 1);
const { agent, client } = acp.methods;
const malformed = [];
const titles = [];

function hold(what, value, expected) {
  const checked = expected ? expected.safeParse(value) : { success: false, error: "unexpected" };
  if (!checked.success) malformed.push(`${what}: ${JSON.stringify(value)}: ${checked.error}`);
}

async function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no sign of ${what}`)), TIMEOUT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** One process. `talk` gets the connection, the updates as they come, and a way to wait for the end of a turn. */
async function connected(talk, { kill }) {
  const child = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.on("exit", (status, signal) => resolve(signal ?? status)));
  const updates = [];
  let idle = () => {};
  const app = acp.client({ name: "editor" }).onNotification(client.session.update, ({ params }) => {
    hold("update", params, schema.zUpdateSessionNotification);
    updates.push(params.update);
    if (params.update.sessionUpdate === "session_info_update") titles.push(params.update.title);
    if (params.update.sessionUpdate === "state_update" && params.update.state === "idle") idle();
  });
  try {
    await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (connection) => {
      const ask = async (method, params, expected) => {
        const result = await inTime(connection.request(method, params), method);
        hold(method, result, expected);
        return { result, updates: updates.splice(0) };
      };
      const prompt = async (sessionId, text) => {
        const ended = new Promise((resolve) => { idle = resolve; });
        const asked = { sessionId, prompt: [{ type: "text", text }] };
        const { result, updates: before } = await ask(agent.session.prompt, asked, schema.zPromptResponse);
        await inTime(ended, "the end of the turn");
        return { result, updates: [...before, ...updates.splice(0)] };
      };
      await talk(ask, prompt);
      if (kill) child.kill("SIGKILL");
    });
    child.stdin.end();
    return await inTime(exited, "the end");
  } finally {
    child.kill("SIGKILL");
  }
}

const initialize = (ask) =>
  ask(
    agent.initialize,
    { protocolVersion: 2, info: { name: "editor", version: "1.0.0" }, capabilities: {} },
    schema.zInitializeResponse,
  );
const list = async (ask, archived) =>
  (await ask(agent.session.list, { cwd, archived }, schema.zListSessionsResponse)).result.sessions;
const status = async (ask, sessionId) =>
  (await ask(agent.session.status, { sessionId }, schema.zSessionStatusResponse)).result.status;

/** A title for an open session; then it is archived and unarchived. */
async function useDrafts(ask, sessionId) {
  const titled = await ask(agent.session.setTitle, { sessionId, title: " My\ttitle " }, schema.zSetSessionTitleResponse);
  const said = { titled: titled.result, open: await status(ask, sessionId) };
  await ask(agent.session.archive, { sessionId }, schema.zArchiveSessionResponse);
  said.archived = await status(ask, sessionId);
  for (const archived of ["exclude", "include", "only"]) said[archived] = await list(ask, archived);
  await ask(agent.session.unarchive, { sessionId }, schema.zUnarchiveSessionResponse);
  said.later = await list(ask);
  said.unknown = await ask(agent.session.archive, { sessionId: "unknown" }).catch(({ code, data }) => ({ code, data }));
  return said;
}

const report = { live: [], malformed, session: old };
if (old === undefined) await connected(
  async (ask, prompt) => {
    report.initialized = (await initialize(ask)).result;
    report.session = (await ask(agent.session.new, { cwd }, schema.zNewSessionResponse)).result.sessionId;
    for (const text of prompts.slice(0, -1)) report.live.push((await prompt(report.session, text)).updates);
  },
  { kill: true },
);
report.status = await connected(
  async (ask, prompt) => {
    await initialize(ask);
    report.listed = await list(ask);
    const saved = drafts ? await status(ask, report.session) : undefined;
    titles.length = 0;
    const params = { sessionId: report.session, cwd, replayFrom: { type: "start" } };
    report.loaded = (await ask(agent.session.resume, params, schema.zResumeSessionResponse)).updates;
    report.further = (await prompt(report.session, prompts.at(-1))).updates;
    if (drafts) {
      report.drafts = { saved, ...(await useDrafts(ask, report.session)) };
      report.drafts.told = titles.splice(0);
    }
    if (!keeps) await ask(agent.session.delete, { sessionId: report.session }, schema.zDeleteSessionResponse);
    report.left = await list(ask);
  },
  { kill: false },
);
console.log(JSON.stringify(report));
