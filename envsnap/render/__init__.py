"""Model objects to text, markdown and JSON. Nothing here reads or writes files."""
