"""The targets and their seeds: small inputs found earlier, and parts of the project's fixtures."""

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz import targets

FIXTURES = Path(__file__).parent.parent / "fixtures"
_LARGEST = 4096  # bytes of a seed: longer ones only slow a fuzzer down

Target = Callable[[bytes], None]


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def target(name: str) -> Target:
    found: Target = importlib.import_module(f"{targets.__name__}.{name}").run
    return found


def about(name: str) -> str:
    module = importlib.import_module(f"{targets.__name__}.{name}")
    return (module.__doc__ or "").split("\n")[0].rstrip(".")


def list_inputs(name: str) -> list[Path]:
    """The inputs in fixtures/fuzz/: they once broke something, or reach code that is hard to reach."""
    return sorted(path for path in (FIXTURES / "fuzz" / name).glob("*") if path.is_file())


def seeds(name: str) -> Iterator[bytes]:
    """All seeds of a target, each of them small."""
    yield from (path.read_bytes() for path in list_inputs(name))
    if name in ("message", "splice"):
        yield from (b"\0" + line for line in _lines())
    elif name == "framing":
        yield from (bytes([2, 1, 7]) + path.read_bytes()[:_LARGEST] for path in _messages())
    elif name == "transcript":
        paths = sorted((FIXTURES / "transcripts").rglob("*.jsonl"))
        yield from (data for path in paths if len(data := path.read_bytes()) <= _LARGEST)


def _messages() -> list[Path]:
    return sorted((FIXTURES / "messages").glob("*.lines"))


def _lines() -> Iterator[bytes]:
    for path in _messages():
        yield from (line for line in path.read_bytes().split(b"\n") if len(line) <= _LARGEST)


def mutations(name: str, chance: random.Random) -> Iterator[bytes]:
    """Endless random mutations of the seeds, and random bytes. Weaker than a fuzzer, but always available."""
    known = [b"", *seeds(name)]
    while True:
        data = bytearray(chance.choice(known) if chance.random() < 0.7 else chance.randbytes(chance.randrange(300)))
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    data[at : at + 1] = chance.randbytes(1)
                case 1:
                    data[at:at] = chance.randbytes(chance.randrange(8))
                case 2:
                    del data[at : at + chance.randrange(1, 9)]
                case _:
                    other = chance.choice(known)
                    begin = chance.randrange(len(other) + 1)
                    data[at:at] = other[begin : begin + chance.randrange(64)]
        yield bytes(data)
