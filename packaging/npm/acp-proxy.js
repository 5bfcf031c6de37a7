#!/usr/bin/env node
// Starts acp-proxy, a Python program, and ends as it ends. It stands between an editor and an agent: it writes nothing
// to stdout, the streams are the program's own, and signals are passed on.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const { isatty } = require("node:tty");
const { version } = require("./package.json");

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
const FROM_TERMINAL = ["SIGINT", "SIGQUIT"]; // Ctrl-C and Ctrl-\\: the terminal sends them to the program too
const MISSING = `acp-proxy: no uv, no Python with acp-proxy and no pipx was found. Install one of them, for example
uv: https://docs.astral.sh/uv/getting-started/installation/
`;

function works(command, ...words) {
  return spawnSync(command, words, { stdio: "ignore", windowsHide: true }).status === 0;
}

function found() {
  if (works("uv", "--version"))
    return ["uv", "tool", "run", "--python", ">=3.11", "--from", `acp-proxy==${version}`, "acp-proxy"];
  for (const python of ["python3", "python"])
    if (works(python, "-c", "import acp_proxy")) return [python, "-m", "acp_proxy"];
  if (works("pipx", "--version")) return ["pipx", "run", "--spec", `acp-proxy==${version}`, "acp-proxy"];
  return null;
}

function start([command, ...words]) {
  const inTerminal = [0, 1, 2].some((stream) => isatty(stream));
  // Before the program starts: a signal in between would end the launcher alone. Handlers run after this function.
  for (const signal of SIGNALS)
    process.on(signal, () => (inTerminal && FROM_TERMINAL.includes(signal)) || program.kill(signal));
  const program = spawn(command, words, { stdio: "inherit" });
  program.on("error", (problem) => {
    process.stderr.write(`acp-proxy: ${command} does not start: ${problem.message}\n`);
    process.exit(1);
  });
  program.on("exit", (status, signal) => {
    if (signal === null) process.exit(status);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const command = found();
if (command === null) {
  process.stderr.write(MISSING);
  process.exitCode = 1;
} else {
  start([...command, ...process.argv.slice(2)]);
}
