"""The machine: the home directory, and where its system keeps configuration."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    platform: str
    home: Path
    environment: Mapping[str, str]

    @property
    def is_windows(self) -> bool:
        return self.platform == "win32"

    @property
    def is_mac(self) -> bool:
        return self.platform == "darwin"

    @property
    def config(self) -> Path:
        return self._find_directory("XDG_CONFIG_HOME", ".config")

    @property
    def roaming(self) -> Path:
        return self._find_directory("APPDATA", "AppData", "Roaming")

    @property
    def local(self) -> Path:
        return self._find_directory("LOCALAPPDATA", "AppData", "Local")

    def _find_directory(self, variable: str, *otherwise: str) -> Path:
        given = self.environment.get(variable)
        return Path(given) if given and Path(given).is_absolute() else self.home.joinpath(*otherwise)


def find_machine() -> Machine:
    return Machine(sys.platform, Path.home(), dict(os.environ))
