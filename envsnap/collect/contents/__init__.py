"""Whether installed files are still what the installer put there."""
