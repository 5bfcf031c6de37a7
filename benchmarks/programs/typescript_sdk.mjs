// The official TypeScript SDK between a client and an agent: typescript_sdk.mjs SDK COMMAND…
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, program, ...words] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const { agent, client } = acp.methods;
let toClient;

const downstream = acp
  .client({ name: "passing" })
  .onNotification(client.session.update, ({ params }) => toClient.notify(client.session.update, params));
const toAgent = downstream.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout))).agent;
const upstream = acp.agent({ name: "passing" }).onConnect((connection) => (toClient = connection.client));
for (const method of [agent.initialize, agent.session.new, agent.session.prompt])
  upstream.onRequest(method, ({ params }) => toAgent.request(method, params));
upstream.onNotification("_bench/ping", (params) => params, ({ params }) => toAgent.notify("_bench/ping", params));
upstream.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
process.stdin.on("end", () => child.stdin.end());
child.on("exit", () => process.exit());
