// Drafts of the protocol, driven by the client of the official TypeScript SDK's unstable entry: node drafts.mjs CWD -- COMMAND…
//
// Two sessions: a title for the first, the second is archived and unarchived. Then both in a new process. Prints one
// JSON report.

import * as acp from "@agentclientprotocol/sdk/unstable";
import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v1/unstable/schema/zod.gen.js";
import { ask, connected, cwd, malformed, open, prompt } from "./client.mjs";

const { session } = acp.methods.agent;
const report = { malformed, lists: {}, refused: {} };

async function refused(connection, method, params) {
  try {
    await connection.request(method, params);
  } catch (problem) {
    return { code: problem.code, data: problem.data };
  }
  return null;
}

const initialize = (connection) =>
  ask(
    connection,
    acp.methods.agent.initialize,
    { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {}, clientInfo: { name: "editor", version: "1.0.0" } },
    schema.zInitializeResponse,
  );
const list = async (connection, archived) => {
  const { result } = await ask(connection, session.list, { cwd, archived }, schema.zListSessionsResponse);
  return Object.fromEntries(result.sessions.map((row) => [row.sessionId, { title: row.title, archived: row.archived }]));
};
const status = async (connection, sessionId) =>
  (await ask(connection, session.status, { sessionId }, schema.zSessionStatusResponse)).result.status;

await connected(
  async (connection) => {
    report.initialized = (await initialize(connection)).result;
    const made = [];
    for (const text of ["the first", "the second"]) {
      const { sessionId } = (await open(connection)).result;
      await prompt(connection, sessionId, text);
      made.push(sessionId);
    }
    const [first, second] = (report.sessions = made);
    const titled = { sessionId: first, title: " My\ttitle " };
    report.titled = (await ask(connection, session.setTitle, titled, schema.zSetSessionTitleResponse)).result;
    report.open = await status(connection, first);
    const one = { sessionId: second };
    await ask(connection, session.archive, one, schema.zArchiveSessionResponse);
    report.archived = await status(connection, second);
    for (const archived of ["exclude", "include", "only"]) report.lists[archived] = await list(connection, archived);
    const unknown = { sessionId: "unknown" };
    report.refused.title = await refused(connection, session.setTitle, { ...unknown, title: "x" });
    report.refused.archive = await refused(connection, session.archive, unknown);
    report.refused.unarchive = await refused(connection, session.unarchive, unknown);
    report.refused.status = await refused(connection, session.status, unknown);
    report.refused.empty = await refused(connection, session.setTitle, { sessionId: first, title: " " });
    report.refused.filter = await refused(connection, session.list, { archived: "odd" });
  },
  { kill: true, sdk: acp },
);
report.status = await connected(
  async (connection) => {
    await initialize(connection);
    const [first, second] = report.sessions;
    report.saved = await status(connection, first);
    await ask(connection, session.unarchive, { sessionId: second }, schema.zUnarchiveSessionResponse);
    report.lists.later = await list(connection, undefined);
  },
  { kill: false, sdk: acp },
);
console.log(JSON.stringify(report));
