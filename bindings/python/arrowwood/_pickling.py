"""Unpickles datasets."""

from arrowwood import _arrowwood


def open_places(places, options, names=None, versions=()):
    """Opens the rows at `places` as they were opened before; columns get `names` if they were renamed.

    Raises FileChanged if a file no longer has one of `versions`.
    """
    dataset = _arrowwood._open_places(places, options)
    dataset._check_versions(versions)
    return dataset if names is None else dataset._with_names(names)


def open_bytes(data):
    """Opens the dataset that was written to `data`."""
    return _arrowwood.open(data)


def open_view(dataset, rows):
    """Returns the rows of `dataset` with the numbers `rows`, of 8 bytes each."""
    return dataset._view_of(rows)
