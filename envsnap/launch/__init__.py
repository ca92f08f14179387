"""Start a command, watch it, and tell how it ended, without the command noticing.

Three processes. The *supervisor* is the one that was called: it waits, passes signals on and leaves with the command's
own end. The *command* is its child, in the same session and process group, with the same standard input, directory,
limits and files. Where output is to be read, the command writes into a pipe (or a pseudo-terminal, where ours is a
terminal), and the *relay* copies that to where it would have gone. Nothing in the supervisor before the command's end
reads a file of the store or imports what could fail: that is the business of helpers, whose death changes nothing.
"""
