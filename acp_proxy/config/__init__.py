"""The options of ``run``, and the configuration file."""
