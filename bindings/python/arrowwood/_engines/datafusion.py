"""Hands datasets to DataFusion as tables, through the package `arrowwood-datafusion`."""

from importlib.metadata import version
from typing import Any

_MISSING_PACKAGE = (
    "registering a dataset as a table of DataFusion needs arrowwood-datafusion; install it: pip install arrowwood-datafusion; "
    "or hand over the rows: ctx.from_arrow(ds, name)"
)


def table_provider(session: Any, *recipe: Any) -> object:
    """Returns the capsule of a table provider, which opens the rows again from `recipe`."""
    try:
        import arrowwood_datafusion
    except ModuleNotFoundError as error:
        if error.name != "arrowwood_datafusion":
            raise
        raise ImportError(_MISSING_PACKAGE, name=error.name) from None
    required = arrowwood_datafusion.DATAFUSION_VERSION
    installed = version("datafusion")
    if installed.partition(".")[0] != str(required):
        # The memory layout of the provider may differ between major versions.
        message = f"arrowwood-datafusion is for DataFusion {required}, and {installed} is installed"
        raise ImportError(f"{message}; pip install 'datafusion=={required}.*'", name="arrowwood_datafusion")
    return arrowwood_datafusion.table_provider(session, *recipe)
