"""Values: small classes that are written like frozen dataclasses, and cost next to nothing to make.

``dataclass`` compiles six functions for each class. ``run`` would spend 0.4 ms on each of fifty before the first line
passes. Here they are shared; that nothing is missing, and nothing is changed, is for mypy to see.
"""

from typing import Any, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Value:
    """``frozen=False`` for what changes. Equal to another of its class with equal fields.

    A default is one object for all: no lists among them, unless an ``__init__`` of its own makes them.
    """

    _names: tuple[str, ...] = ()

    def __init_subclass__(cls, *, frozen: bool = True) -> None:
        """``frozen``: for mypy."""
        super().__init_subclass__()
        cls._names = (*cls._names, *cls.__annotations__)
        cls.__match_args__ = cls._names  # type: ignore[attr-defined, misc]

    def __init__(self, *values: Any, **named: Any) -> None:
        for name, value in zip(self._names, values):  # noqa: B905 - defaults stay those of the class
            setattr(self, name, value)
        for name in named:
            setattr(self, name, named[name])

    def but(self, **named: Any) -> Self:
        """A copy with other values for some fields."""
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
