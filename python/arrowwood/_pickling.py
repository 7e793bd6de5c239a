"""What pickled datasets become again."""

from arrowwood import _arrowwood


def open_places(places, how):
    """The dataset whose rows lie at `places`, opened as it was."""
    return _arrowwood._open_places(places, how)


def open_bytes(data):
    """The dataset that was written to `data`."""
    return _arrowwood.open(data)
