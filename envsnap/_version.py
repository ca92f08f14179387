"""The version of envsnap, read by the build and by `envsnap --version` without any other import."""

__version__ = "0.1.0"
