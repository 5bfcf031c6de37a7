"""Where the store is when nobody says otherwise."""

from pathlib import Path


def default_root() -> Path:
    """The user's data directory, as the system has it (XDG_DATA_HOME on Linux)."""
    import platformdirs

    return Path(platformdirs.user_data_dir("acp-proxy", appauthor=False))
