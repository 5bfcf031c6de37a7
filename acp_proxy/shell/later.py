"""Modules that others import at their top, and need only in a few functions: loaded when something of them is used."""

import sys
from types import ModuleType


class Later:
    """While it is entered, an import of one of these modules brings a stand-in, which loads the module once it is asked
    for something; who imports it afterwards gets the module itself. For before there is a second thread, or for what no
    other thread imports.

    ``classes``: of these a stand-in has stand-ins as well, for who takes them out of it and only names them.
    """

    def __init__(self, *names: str, classes: tuple[str, ...] = ()) -> None:
        self._stand_ins = [_StandIn(name) for name in names if name not in sys.modules]
        for stand_in in self._stand_ins:
            stand_in.__dict__.update({name: type(name, (), {}) for name in classes})

    def __enter__(self) -> None:
        sys.modules.update({stand_in.__name__: stand_in for stand_in in self._stand_ins})

    def __exit__(self, *problem: object) -> None:
        for stand_in in self._stand_ins:
            stand_in.leave()


class _StandIn(ModuleType):
    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # ``from it import something`` asks whether it is a package
            raise AttributeError(name)
        self.leave()
        return getattr(__import__(self.__name__), name)
