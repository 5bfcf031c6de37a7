"""The checks of ``acp-proxy doctor``: the store, the versions, the editors and an agent. Prints nothing."""
