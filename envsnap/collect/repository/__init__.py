"""What a git repository is, from its files and from bounded git processes."""
