"""The machine: the home directory, and where its system keeps configuration."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A system, a home directory and an environment: what decides where configuration is."""

    platform: str
    home: Path
    environment: Mapping[str, str]

    @property
    def is_windows(self) -> bool:
        """Whether paths and directories are those of Windows."""
        return self.platform == "win32"

    @property
    def is_mac(self) -> bool:
        """Whether directories are those of macOS."""
        return self.platform == "darwin"

    @property
    def config(self) -> Path:
        """The directory of most programs' configuration, except on Windows and macOS."""
        return self._find_directory("XDG_CONFIG_HOME", ".config")

    @property
    def roaming(self) -> Path:
        """Windows' directory of configuration that follows the user."""
        return self._find_directory("APPDATA", "AppData", "Roaming")

    @property
    def local(self) -> Path:
        """Windows' directory of configuration of this machine."""
        return self._find_directory("LOCALAPPDATA", "AppData", "Local")

    def _find_directory(self, variable: str, *default_parts: str) -> Path:
        value = self.environment.get(variable)
        return Path(value) if value and Path(value).is_absolute() else self.home.joinpath(*default_parts)


def find_machine() -> Machine:
    """This machine, with this process's environment."""
    return Machine(sys.platform, Path.home(), dict(os.environ))
