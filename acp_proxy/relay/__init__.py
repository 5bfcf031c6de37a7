"""What a running proxy does: processes, pipes and threads; it performs the effects."""
