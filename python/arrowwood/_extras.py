"""Engines, which are installed by who wants them."""

from importlib import import_module
from types import ModuleType


def engine(package: str, what_for: str, extra: str) -> ModuleType:
    """The module `package`, or an ``ImportError`` that says how to install it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as problem:
        # What `package` itself misses is not for us to name.
        if problem.name is not None and problem.name.partition(".")[0] != package.partition(".")[0]:
            raise
    raise ImportError(f"{what_for} needs {package.partition('.')[0]}; install it: pip install 'arrowwood[{extra}]'", name=package)
