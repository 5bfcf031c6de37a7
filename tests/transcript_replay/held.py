"""What a replay holds in memory."""


def measure_held(thing: object, seen: dict[int, object] | None = None) -> int:
    """The bytes and characters that an object and its parts hold, each part counted once."""
    seen = seen if seen is not None else {}
    if id(thing) in seen:
        return 0
    seen[id(thing)] = thing
    if isinstance(thing, bytes | bytearray | str):
        return len(thing)
    parts: list[object] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = [*thing]
    elif type(thing).__module__.startswith("acp_proxy"):
        parts = [*getattr(thing, "__dict__", {}).values()]
        parts += [getattr(thing, name) for name in getattr(type(thing), "__slots__", ())]
    return sum(measure_held(part, seen) for part in parts)
