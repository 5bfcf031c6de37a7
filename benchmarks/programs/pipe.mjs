// A proxy in Node between a client and an agent: two pipes.
import { spawn } from "node:child_process";

const [program, ...words] = process.argv.slice(2);
const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
process.stdin.pipe(agent.stdin);
agent.stdout.pipe(process.stdout);
