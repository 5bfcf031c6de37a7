// A Node agent that only answers initialize, to measure the cost of its start.
process.stdin.on("data", (data) => {
  const { id } = JSON.parse(data);
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result: { protocolVersion: 1 } })}\n`);
});
