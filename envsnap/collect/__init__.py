"""What is written down: one module a section, declared once, run in bounded child processes."""
