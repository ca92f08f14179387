"""Bug reports in the form that a project's template asks for, with nothing private in them.

`profiles` says what a template asks, `upstream` runs the project's own collector, `logs` cuts out of a log what tells,
`parts` writes each part, `assemble` puts them under the template's headings and keeps the whole within GitHub's limit.
"""

from __future__ import annotations
