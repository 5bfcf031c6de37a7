"""A base class for small value classes, written like frozen dataclasses but much faster to define.

A module that ``run`` loads at its start or for a first load, or that a plain list or completion loads, uses ``Value``;
every other module uses ``dataclass``. That compiles six functions for each class: 0.4 ms for each of fifty classes,
before ``run`` passes the first line. Here all classes share these functions. mypy finds a missing, unknown or changed
field. Under tests a missing or unknown one is also an error at run time (``check_fields``).

Classes of which every message makes a value write their own ``__init__``, hidden from mypy. It takes a quarter of the
time.
"""

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda given: given


@dataclass_transform(frozen_default=True)
class Value:
    """Subclasses declare their fields like a dataclass. Two values are equal if their class and all fields are.

    ``class Name(Value, frozen=False)`` allows changes to fields. All instances share a default, so no default may be
    mutable; a class that needs a list writes its own ``__init__``.
    """

    _names: tuple[str, ...] = ()

    def __init_subclass__(cls, *, frozen: bool = True) -> None:
        """``frozen`` is read only by mypy."""
        super().__init_subclass__()
        cls._names = (*cls._names, *cls.__annotations__)
        cls.__match_args__ = cls._names  # type: ignore[attr-defined, misc]

    def __init__(self, *values: "Any", **named: "Any") -> None:
        """``check_fields`` puts ``_checked`` in place of this."""
        for name, value in zip(self._names, values):  # noqa: B905 - defaults stay those of the class
            setattr(self, name, value)
        for name in named:
            setattr(self, name, named[name])

    def but(self, **named: "Any") -> "Self":
        """A copy with other values for the named fields."""
        return type(self)(**{name: getattr(self, name) for name in self._names} | named)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._names, self._fields(), strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._names)


def check_fields() -> None:
    """For tests: from now on a missing, unknown or repeated field raises TypeError, in this process."""
    Value.__init__ = _checked  # type: ignore[method-assign]


def _checked(self: Value, *values: "Any", **named: "Any") -> None:
    """Like ``Value.__init__``, and hardly slower: tests make millions of values."""
    names = self._names
    free = names[len(values) :]
    for name, value in zip(names, values):  # noqa: B905 - as there
        setattr(self, name, value)
    for name in named:
        if name not in free:
            raise TypeError(f"{type(self).__name__} has the fields {names}, not also {name} after {len(values)} values")
        setattr(self, name, named[name])
    if len(values) > len(names):
        raise TypeError(f"{type(self).__name__} has the fields {names}, not {len(values)}")
    if len(named) < len(free) and (missing := [each for each in free if not hasattr(self, each)]):
        raise TypeError(f"{type(self).__name__} lacks {missing}")
