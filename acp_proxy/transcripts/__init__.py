"""The store: the files of recorded sessions, and the index and search tables derived from them.

Other packages import one of two modules: ``store`` for a running proxy, ``archive`` for commands and the doctor.
"""
