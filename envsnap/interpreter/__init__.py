"""The interpreter that will run the server, read from files and not by running it.

`find_interpreter(host)` says which Python a launch ends up in and what that Python's `sys.path` will be;
`interpreter_of_command(host, argv)` only says which Python a command line ends up in. The parts: `command`
(wrappers, shells, scripts), `layout` (prefix and release), `searchpath` (what getpath and site.py do),
`release` (the full version).
"""

from __future__ import annotations

from envsnap.interpreter.command import PythonCommand, interpreter_of_command, python_command
from envsnap.interpreter.find import Interpreter, find_interpreter
from envsnap.interpreter.searchpath import DISABLED

__all__ = [
    "DISABLED", "Interpreter", "PythonCommand", "find_interpreter", "interpreter_of_command", "python_command",
]  # fmt: skip
