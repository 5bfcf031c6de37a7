"""All sessions in the browser, from a server on this machine alone."""
