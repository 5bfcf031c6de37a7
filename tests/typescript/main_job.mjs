// The main job, driven by the official TypeScript SDK's client: node main_job.mjs CWD PROMPT… -- COMMAND…
//
// All prompts but the last, SIGKILL, a new process: list, load, the last prompt, delete. Prints one JSON report.

import { connected, given, initialize, list, load, malformed, open, prompt, remove } from "./client.mjs";

const prompts = given.slice(0, -1);
const last = given.at(-1);
const report = { live: [], malformed };
await connected(
  async (connection) => {
    await initialize(connection);
    report.session = (await open(connection)).result.sessionId;
    for (const text of prompts) report.live.push((await prompt(connection, report.session, text)).updates);
  },
  { kill: true },
);
report.status = await connected(
  async (connection) => {
    report.initialized = (await initialize(connection)).result;
    report.listed = (await list(connection)).result.sessions;
    report.loaded = (await load(connection, report.session)).updates;
    report.further = (await prompt(connection, report.session, last)).updates;
    await remove(connection, report.session);
    report.left = (await list(connection)).result.sessions;
  },
  { kill: false },
);
console.log(JSON.stringify(report));
