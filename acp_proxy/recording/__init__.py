"""What was said goes into the store, without ever holding up the relay."""
