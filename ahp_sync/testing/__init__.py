"""Scripted backends, fixtures and asserts for testing a harness built on ``ahp_sync``."""
