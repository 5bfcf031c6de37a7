// An agent with recorded sessions, driven by the official TypeScript SDK's client: node mock_agent.mjs CWD SESSION PROMPT -- COMMAND…
//
// List, load, a prompt in it, the same prompt in a new session, delete both, list. Prints one JSON report.

import { connected, given, initialize, list, load, malformed, open, prompt, remove } from "./client.mjs";

const [session, text] = given;
const report = { malformed };
report.status = await connected(
  async (connection) => {
    await initialize(connection);
    report.listed = (await list(connection)).result.sessions;
    report.loaded = (await load(connection, session)).updates;
    report.continued = (await prompt(connection, session, text)).updates;
    report.session = (await open(connection)).result.sessionId;
    report.live = (await prompt(connection, report.session, text)).updates;
    for (const sessionId of [session, report.session]) await remove(connection, sessionId);
    report.left = (await list(connection)).result.sessions;
  },
  { kill: false },
);
console.log(JSON.stringify(report));
