"""Imports engines, which users install themselves."""

import re
from importlib import import_module
from types import ModuleType

# Lists the oldest versions that pass our tests, as `pyproject.toml` does: DuckDB 1.4 has internal errors, and Polars
# 1.30 panics.
_OLDEST_VERSIONS = {"duckdb": "2.0", "polars": "2.1"}


def engine(package: str, purpose: str, extra: str) -> ModuleType:
    """Imports the module `package`, which `purpose` needs; the ``ImportError`` says how to install it by `extra`."""
    try:
        module = import_module(package)
        _refuse_old(module, purpose, extra)
        return module
    except ModuleNotFoundError as error:
        # A dependency of `package` is missing: its own message names it.
        if error.name is not None and error.name.partition(".")[0] != package.partition(".")[0]:
            raise
    raise ImportError(
        f"{purpose} needs {package.partition('.')[0]}; install it: pip install 'arrowwood[{extra}]'", name=package
    )


def _refuse_old(module: ModuleType, purpose: str, extra: str) -> None:
    """Refuses a version that is too old."""
    oldest = _OLDEST_VERSIONS.get(module.__name__)
    if oldest is not None and _version_numbers(module.__version__) < _version_numbers(oldest):
        message = f"{purpose} needs {module.__name__} ≥ {oldest}, and {module.__version__} is installed"
        raise ImportError(f"{message}; pip install -U 'arrowwood[{extra}]'", name=module.__name__)


def _version_numbers(version: str) -> list[int]:
    """Returns the major and minor number of a version."""
    return [int(digits) for digits in re.findall(r"\d+", version)[:2]]
