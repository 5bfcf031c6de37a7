"""What the core does not need: a folder for each subject, with its commands. The core imports none of them."""
