"""The version, apart from the package so that the build can read it without importing that."""

__version__ = "0.1.0"
