"""A Python agent that only answers initialize, to measure the cost of its start."""

import json
import sys

for line in sys.stdin:
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"protocolVersion": 1}}
    print(json.dumps(answer), flush=True)
