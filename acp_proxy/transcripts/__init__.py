"""What is kept: the files of sessions, and what is derived from them.

Others come by one of two doors: a running proxy by ``store``, commands and the doctor by ``archive``.
"""
