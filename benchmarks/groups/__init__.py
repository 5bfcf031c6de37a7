"""One module per group of measurements, each with `run(effort) -> Iterator[Row]`; its docstring is in the page."""
