"""`make fuzz [TARGET="message cursor"] [SECONDS=60]`: run each target under atheris, and check how its cost grows.

Ends with 1 if anything broke, and names the input: `python -m fuzz --input FILE TARGET` runs it alone. Minimised
(`-minimize_crash=1`), it belongs in fixtures/fuzz/TARGET/, which `make test` runs.
"""

import argparse
import sys
from pathlib import Path

from fuzz import growth, running
from fuzz.corpus import about, names, target


def main() -> int:
    asked = argparse.ArgumentParser(prog="make fuzz", description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("target", nargs="*", help=f"of {', '.join(names())}; all of them where none is named")
    asked.add_argument("--seconds", type=int, default=60, help="for each target")
    asked.add_argument("--input", type=Path, help="run the targets with this file alone")
    asked.add_argument("--growth", action="store_true", help="only how the cost grows")
    given = asked.parse_args()
    if unknown := set(given.target) - set(names()):
        asked.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if given.input is not None:
        for name in given.target or names():
            target(name)(given.input.read_bytes())
        return 0
    if not running.is_there() and not given.growth:
        asked.error("atheris is missing: pip install 'acp-proxy[fuzz]'")
    broken = 0
    for name in [] if given.growth else given.target or names():
        print(f"{name}: {about(name)}", flush=True)
        ran = running.run(name, given.seconds)
        print(f"  {ran.executions:,} executions, {ran.coverage:,} edges reached", flush=True)
        if ran.broken is not None:
            broken += 1
            print(f"{ran.told}\n  broken by {ran.broken}", file=sys.stderr, flush=True)
    if not given.target:
        for shape in growth.SHAPES:
            grown = growth.measured(shape)
            broken += not grown.is_well
            print(f"  {'' if grown.is_well else 'TOO STEEP: '}{grown}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
