// Validates values with the schemas of the official TypeScript SDK's unstable entry: node validate.mjs < LINES
//
// Each line of stdin is a JSON array: the name of a schema, and a value. Prints, as one JSON array, the lines whose value
// does not meet the schema, or of which the schema leaves something out.

import { readFileSync } from "node:fs";

import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v1/unstable/schema/zod.gen.js";
import { contains } from "./contains.mjs";

const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);
const wrong = lines
  .map((line) => JSON.parse(line))
  .filter(([name, value]) => {
    const checked = schema[name].safeParse(value);
    return !checked.success || !contains(JSON.parse(JSON.stringify(checked.data)), value);
  });
console.log(JSON.stringify(wrong));
