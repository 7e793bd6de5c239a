"""Engines, which users install themselves."""

import re
from importlib import import_module
from types import ModuleType

# The oldest versions that pass our tests: DuckDB 1.4 fails inside, Polars 1.30 panics. `pyproject.toml` says the same.
_OLDEST = {"duckdb": "2.0", "polars": "2.1"}


def engine(package: str, what_for: str, extra: str) -> ModuleType:
    """The module `package`, or an ``ImportError`` that says how to install it."""
    try:
        found = import_module(package)
        _refuse_old(found, what_for, extra)
        return found
    except ModuleNotFoundError as problem:
        # What `package` itself misses is not for us to name.
        if problem.name is not None and problem.name.partition(".")[0] != package.partition(".")[0]:
            raise
    raise ImportError(
        f"{what_for} needs {package.partition('.')[0]}; install it: pip install 'arrowwood[{extra}]'", name=package
    )


def _refuse_old(found: ModuleType, what_for: str, extra: str) -> None:
    oldest = _OLDEST.get(found.__name__)
    if oldest is not None and _numbers(found.__version__) < _numbers(oldest):
        wanted = f"{what_for} needs {found.__name__} ≥ {oldest}, and {found.__version__} is installed"
        raise ImportError(f"{wanted}; pip install -U 'arrowwood[{extra}]'", name=found.__name__)


def _numbers(version: str) -> list[int]:
    """Of a version the first two numbers."""
    return [int(digits) for digits in re.findall(r"\d+", version)[:2]]
