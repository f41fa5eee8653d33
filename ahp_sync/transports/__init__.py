"""How messages reach a backend: HTTP, child processes, or what the host injects."""
