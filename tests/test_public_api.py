"""The public face: what it lists, what it documents, what it types, what it costs to import."""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watching import ROOT, host

import ahp_sync

MODULES = sorted(module.name for module in pkgutil.walk_packages(ahp_sync.__path__, "ahp_sync."))
#: Not for import by name: they run something, or need what only a program brings.
PROGRAMS = ("ahp_sync.__main__",)


def test_the_list_is_what_is_there() -> None:
    """Every name that is listed exists, and every public name that exists is listed."""
    there = {
        name
        for name, value in vars(ahp_sync).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert {*there, "__version__"} == set(ahp_sync.__all__)
    assert len(ahp_sync.__all__) == len(set(ahp_sync.__all__))


def test_a_star_import_brings_the_list_and_nothing_else() -> None:
    """No module and no helper comes with it."""
    scope: dict[str, Any] = {}
    exec("from ahp_sync import *", scope)
    assert scope.keys() - {"__builtins__"} == set(ahp_sync.__all__)


def test_the_version_is_the_distributions() -> None:
    """There is one version."""
    assert ahp_sync.__version__ == importlib.metadata.version("ahp-sync")


@pytest.mark.parametrize("name", [name for name in MODULES if name not in PROGRAMS])
def test_every_module_lists_what_it_offers(name: str) -> None:
    """Each has a docstring, and nothing is in ``__all__`` that is not there."""
    module = importlib.import_module(name)
    assert module.__doc__
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.{public}"


def documented() -> Iterator[tuple[str, Any]]:
    """All public classes and functions, and what is public in the classes."""
    for package in ("ahp_sync", "ahp_sync.testing"):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{package}.{name}", value
            if inspect.isclass(value):
                yield from members(f"{package}.{name}", value)


def members(prefix: str, owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(owner).items():
        if name.startswith("_") or isinstance(value, enum.Enum):
            continue
        value = getattr(value, "__func__", value)  # a class method
        if inspect.isfunction(value) or isinstance(value, property):
            yield f"{prefix}.{name}", value


@pytest.mark.parametrize(("name", "value"), [pytest.param(*one, id=one[0]) for one in documented()])
def test_everything_public_is_documented(name: str, value: Any) -> None:
    """Classes, functions, methods and properties; a generated signature is no docstring."""
    words = inspect.getdoc(value) or ""
    assert len(words) > 10
    assert not words.startswith(f"{name.rpartition('.')[2]}(")


def test_importing_loads_nothing_heavy() -> None:
    """What only a call or a transport needs is loaded with that; nothing is started."""
    heavy = (
        *("asyncio", "http.client", "jsonschema", "jsonschema_rs", "multiprocessing", "pytest"),
        *("requests", "ssl", "tenacity", "urllib3", "rich"),
    )
    result = host(
        f"""
        import sys
        before = set(sys.modules)
        import ahp_sync, threading
        print(sorted(set({heavy!r}) & (set(sys.modules) - before)), threading.active_count())
        # ---
        """
    )
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "[] 1\n"


def test_the_public_names_can_be_used_under_strict_typing(tmp_path: Path) -> None:
    """A program that uses all of it passes ``mypy --strict``, and its mistakes are found."""
    pytest.importorskip("mypy")
    program = Path(__file__).with_name("typing_api.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--warn-unused-ignores"]
    result = subprocess.run(
        [*command, "--follow-imports=silent", f"--cache-dir={tmp_path}", str(program)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stdout
