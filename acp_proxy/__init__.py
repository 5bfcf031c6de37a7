"""acp-proxy: session history for any agent of the Agent Client Protocol.

Programs use ``open_store`` (docs/python-api.md). Its module is imported on first use.
"""

__version__ = "0.1.0"
__all__ = ["NoStore", "NoSuchSession", "Session", "SessionStore", "Turn", "__version__", "open_store"]

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from acp_proxy.api import Session, SessionStore, Turn, open_store
    from acp_proxy.errors import NoStore, NoSuchSession
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from acp_proxy import api

        return getattr(api, name)
