"""Delays the import of modules that others import but rarely use: they load when something of them is used."""

import os
import sys
from types import ModuleType

_KNOWN = {"platform": {"system": lambda: os.uname().sysname}}
"""What may be used without loading the module: until Python 3.11, uuid asks for the system when it is imported."""


class Later:
    """A context in which importing these modules gives a stand-in.

    The stand-in loads the module when one of its attributes is used; later imports get the module itself. Use it before
    there is a second thread, or for modules that no other thread imports.
    """

    def __init__(self, *names: str) -> None:
        self._stand_ins = [_StandIn(name) for name in names if name not in sys.modules]
        for stand_in in self._stand_ins:
            stand_in.__dict__.update(_KNOWN.get(stand_in.__name__, {}))

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
        if name == "__path__":  # ``from module import name`` asks whether it is a package
            raise AttributeError(name)
        self.leave()
        return getattr(__import__(self.__name__), name)
