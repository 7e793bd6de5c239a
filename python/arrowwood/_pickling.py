"""Unpickles datasets."""

from arrowwood import _arrowwood


def open_places(places, how, names=None, versions=()):
    """The dataset whose rows lie at `places`, opened as it was; its columns are called `names`,
    if they were renamed.

    Raises FileChanged if a file is none of `versions` any more."""
    found = _arrowwood._open_places(places, how)
    found._check_versions(versions)
    return found if names is None else found._with_names(names)


def open_bytes(data):
    """The dataset that was written to `data`."""
    return _arrowwood.open(data)


def open_view(dataset, rows):
    """The rows of `dataset` with the numbers `rows`, of 8 bytes each."""
    return dataset._view_of(rows)
