"""Two small policy backends to read, run and copy. They need nothing but the standard library.

``http_backend.py`` judges shell commands over HTTP, ``stdio_backend.py`` judges file paths over
standard input and output. Each is one self-contained file, started by its path; ``ahp-sync demo``
runs both. They show the protocol and are no sandbox.
"""
