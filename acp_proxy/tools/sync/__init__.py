"""The same history on several machines.

Each machine has a log of numbered records in the shared place, each written once. A session's history is a tree of
segments (``session_tree``), so its order never comes from clocks. ``rounds`` does one round: ``local_changes`` finds
what is new in the store, ``pull`` reads the logs of others, ``apply`` brings them into the store, ``push`` writes ours.
"""
