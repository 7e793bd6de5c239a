"""Loads batches for training, rows in any order as arrays, for ``Dataset.loader``."""

import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from math import ceil
from multiprocessing.context import get_spawning_popen
from operator import index

import numpy as np

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument, InvalidData

_STATE = "arrowwood.loader"


class Loader:
    """Batches of a dataset's rows, each a dict of arrays by column; made by :meth:`Dataset.loader`.

    Each iteration gives the batches of an epoch from its beginning, whatever others do; once one has come to its end,
    the next gives those of the next epoch, in a new order if there is a seed. ``loader[i]`` is batch `i` of the epoch
    :attr:`epoch`, in any order of access: so it is a map-style dataset for
    ``torch.utils.data.DataLoader(loader, batch_size=None, num_workers=4)``, whose workers map the file themselves.

    Attributes:
        epoch: number of the epoch that the next iteration reads. ``set_epoch`` sets it, also in workers that go on
            from one epoch to the next.
        dataset: the rows.
    """

    def __init__(self, dataset, batch_size, *, seed, block, start, drop_last, columns, device, rank, world):
        batch_size = index(batch_size)
        start = index(start)
        rank = index(rank)
        world = index(world)
        seed = None if seed is None else index(seed)
        block = None if block is None else index(block)
        if batch_size < 1:
            raise InvalidArgument(f"loader: a batch has a row or more, got batch_size={batch_size}")
        if not 0 <= rank < world:
            raise InvalidArgument(f"loader: expected a rank from 0 to {world - 1} of {world} processes, got {rank}")
        if block is not None and seed is None:
            raise InvalidArgument("loader: rows are shuffled by a seed; give seed=… with block=…")
        if block is not None and block < 1:
            raise InvalidArgument(f"loader: a block has a row or more, got block={block}")
        if seed is not None and not 0 <= seed < 1 << 64:
            raise InvalidArgument(f"loader: a seed is a number from 0 to 2**64 - 1, got {seed}")
        names = [columns] if isinstance(columns, str) else columns
        if names is not None and not list(names):
            raise InvalidArgument("loader: columns=[] leaves nothing to load; give names, or None for all")
        if device is not None:
            _check_device(device)
        self._full_dataset = dataset
        self.dataset = dataset if names is None else dataset.select(list(names))
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.device = device
        self._order = {"seed": seed, "block": block, "rank": rank, "world": world}
        self._rows = len(self.dataset)
        self._epoch = 0
        self._shared_epoch = _SharedEpoch()
        # Batches read by number in this epoch, and how many of them were read again, to detect a repeated epoch.
        self._read_batches = set()
        self._repeats = 0
        if not 0 <= start <= len(self):
            raise InvalidArgument(f"loader: start is the number of a batch, from 0 to {len(self)}, got {start}")
        # The first batch of an iteration, until one is complete.
        self._start = start
        # The epoch and the next batch of the last iteration, for `state_dict`.
        self._position = (0, start)
        # Created on first use, in each process.
        self._batches = None
        self._column_kinds = None
        self._cached_rows_id = None

    @property
    def epoch(self):
        epoch = self._shared_epoch.take_change()
        if epoch is not None:
            self._move_to(epoch, 0)
        return self._epoch

    def _move_to(self, epoch, batch):
        """Moves to a batch of an epoch."""
        self._epoch = epoch
        self._start = batch
        self._position = (epoch, batch)
        self._read_batches = set()
        self._repeats = 0

    def __len__(self):
        """The number of batches of an epoch for this rank."""
        rank, world = self._order["rank"], self._order["world"]
        if self.drop_last:
            # Ranks that exchange gradients need the same number of batches.
            return self._rows // self.batch_size // world
        return len(range(rank, _ceil_div(self._rows, self.batch_size), world))

    def __getitem__(self, number):
        """Batch `number` of the epoch."""
        batch = index(number)
        batch += len(self) if batch < 0 else 0
        if not 0 <= batch < len(self):
            raise IndexError(f"batch {number} of an epoch of {len(self)}")
        epoch = self.epoch
        if self._order["seed"] is not None:
            self._warn_if_repeated(batch)
        return self._batch(epoch, batch)

    def _warn_if_repeated(self, batch):
        """Warns if batches are read by number, and an epoch is repeated in the same order."""
        # A worker reads only some of the batches, but each once in an epoch.
        is_complete = len(self._read_batches) == len(self) or _worker()[1] > 1
        self._repeats += batch in self._read_batches and is_complete
        # Users may look at a single batch again.
        if self._repeats == min(2, len(self)):
            message = (
                f"loader: the batches of epoch {self._epoch} are read again in the same order; call set_epoch(number) "
                "before each epoch"
            )
            warnings.warn(message, UserWarning, stacklevel=3)
            self._read_batches = set()
            self._repeats = 0
        self._read_batches.add(batch)

    def __iter__(self) -> Iterator[dict]:
        """The batches of an epoch, the first time from `start` or from where the state stopped that was loaded."""
        worker, workers = _worker()
        epoch = self.epoch
        for number in range(self._start, len(self)):
            batch = self._batch(epoch, number) if number % workers == worker else None
            self._position = (epoch, number + 1)
            if batch is not None:
                yield batch
        self._position = (epoch + 1, 0)
        # An iteration that began later may have advanced the epoch already.
        if self.epoch <= epoch:
            self._epoch, self._start = epoch + 1, 0

    def set_epoch(self, epoch):
        """Go to the beginning of an epoch, where batches are asked for by number; workers that run follow."""
        if index(epoch) < 0:
            raise InvalidArgument(f"set_epoch: epochs are numbered from 0, got {epoch}")
        self._move_to(index(epoch), 0)
        self._shared_epoch.set(self._epoch)

    def state_dict(self):
        """The position of the last iteration, to be saved with a model, as numbers. The last returned batch counts as
        done.

        It covers iteration over the loader itself; PyTorch's ``DataLoader`` takes batches by number, and counts them.
        """
        rows = {"rows": self._rows, "rows_are": self._rows_id()}
        options = {"batch_size": self.batch_size, "drop_last": self.drop_last, **rows, **self._order}
        epoch, batch = self._position
        return {"kind": _STATE, "epoch": epoch, "batch": batch, **options}

    def load_state_dict(self, state):
        """Continue from `state`, returned by :meth:`state_dict`: the next iteration gives the remaining batches.

        Raises:
            InvalidArgument: it is from a loader of other rows, or with another batch size, seed or rank. Rows are
                compared by their numbers in the data and by the values of some of them, not by the path of a file.
        """
        expected = self.state_dict()
        if not isinstance(state, dict) or state.get("kind") != _STATE:
            raise InvalidArgument("load_state_dict: expected what state_dict() of a loader gave")
        for name in expected:
            if name not in ("epoch", "batch") and expected[name] != state.get(name):
                if name == "rows_are":
                    causes = "another split, slice, order or file, or rows that have changed"
                    raise InvalidArgument(f"load_state_dict: the state is of other rows of the data: {causes}")
                hint = "; ds[:n] has the first n rows of a table that has grown" if name == "rows" else ""
                raise InvalidArgument(
                    f"load_state_dict: the state has {name}={state.get(name)}, and the loader {expected[name]}{hint}"
                )
        epoch, batch = state.get("epoch"), state.get("batch")
        if not isinstance(epoch, int) or not isinstance(batch, int) or epoch < 0 or not 0 <= batch <= len(self):
            raise InvalidArgument(f"load_state_dict: there is no batch {batch} in epoch {epoch}")
        # Running workers restart the epoch; their caller knows which of its batches are left.
        self._shared_epoch.set(epoch)
        self._move_to(epoch, batch)

    def __getstate__(self):
        # Only the ID needs columns that are not loaded, so they are not sent to workers.
        not_sent = {"_batches": None, "_column_kinds": None, "_full_dataset": None}
        return {**self.__dict__, **not_sent, "_cached_rows_id": self._rows_id()}

    def __repr__(self):
        order = ", ".join(
            f"{name}={value}" for name, value in self._order.items() if value not in (None, 0, 1) or name == "seed"
        )
        return f"<arrowwood.Loader: {len(self)} batches of {self.batch_size} rows, {order}, epoch {self.epoch}>"

    def _rows_id(self):
        """Returns a hash that identifies the rows, whatever file they are in."""
        if self._cached_rows_id is None:
            self._cached_rows_id = _arrowwood._Batches(self._full_dataset).rows_id()
        return self._cached_rows_id

    def _reader(self):
        if self._batches is None:
            self._batches = _arrowwood._Batches(self.dataset)
            self._column_kinds = self._batches.describe()
        return self._batches

    def _batch(self, epoch, number):
        """Reads batch `number` of an epoch."""
        order = self._order
        start = (number * order["world"] + order["rank"]) * self.batch_size
        parts = self._reader().read(order["seed"], epoch, order["block"], start, start + self.batch_size)
        columns = zip(self.dataset.columns, parts, self._column_kinds, strict=True)
        arrays = {name: _array(name, part, kind) for name, part, kind in columns}
        return arrays if self.device is None else _tensors(arrays, self.device)


class _SharedEpoch:
    """Shares the number of an epoch with the processes that are started with it."""

    def __init__(self):
        # Contains the epoch, and how often it was set.
        try:
            self._words = multiprocessing.RawArray("Q", 2)
        except OSError:
            # Without a directory for temporary files, each process has a number of its own.
            self._words = [0, 0]
        # How often the epoch was set when it was last read.
        self._seen = 0

    def set(self, epoch):
        self._words[0] = epoch
        self._words[1] += 1
        self._seen = self._words[1]

    def take_change(self):
        """Returns the epoch if any process has set it since the last call; otherwise None."""
        if self._words[1] == self._seen:
            return None
        self._seen = self._words[1]
        return self._words[0]

    def __getstate__(self):
        # Memory can only be shared with a process that is being started; any other pickle is a copy.
        return {"words": self._words if get_spawning_popen() else None, "seen": self._seen}

    def __setstate__(self, state):
        words = state["words"]
        self.__init__()
        if words is not None:
            self._words, self._seen = words, state["seen"]


def _array(name, part, kind):
    """Returns the array of a column's part of a batch; it shares no memory."""
    if kind is not None and not isinstance(part, _arrowwood.Column):
        dtype, shape, order = kind
        array = np.asarray(part).view(dtype).reshape(-1, *shape)
        return array if order is None else array.transpose(0, *(axis + 1 for axis in order))
    lists = part._lists()
    if lists is not None:
        dtype, values, shape, ends = lists
        values = np.array(values).view(dtype)
        return values.reshape(-1, *shape) if ends is None else _ragged(np.split(values, ends))
    array = part.to_numpy(copy=True)
    if kind is not None and array.dtype != kind[0]:
        message = f"column {name!r}: nulls have no place in an array of {kind[0]}"
        advice = "" if kind[1] else f"leave them out, by ds.drop_nulls({name!r}), or "
        raise InvalidData(f"{message}; {advice}write the column with a value for them")
    return array


def _ragged(rows):
    """Returns arrays of several lengths as an array of objects."""
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


def _check_device(device):
    """Refuses a device that PyTorch does not have, before any row is read."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = f"loader: device={str(device)!r} needs PyTorch; install it: pip install torch"
        raise ImportError(f"{message}. Without a device, batches are NumPy arrays", name="torch") from None
    if device != "torch":
        try:
            torch.device(device)
        except (RuntimeError, TypeError) as error:
            devices = "None, 'torch', or a device of PyTorch, such as 'cpu' or 'cuda:0'"
            raise InvalidArgument(f"loader: expected {devices} as device, got {device!r}") from error


def _tensors(arrays, device):
    """Returns the arrays as tensors on `device`; objects become lists, and other arrays stay as they are."""
    return {name: _tensor(array, device) for name, array in arrays.items()}


def _tensor(array, device):
    import torch

    if array.dtype.kind not in "biufc":
        return array.tolist() if array.dtype == object else array
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if str(device) in ("torch", "cpu") else tensor.to(device, non_blocking=True)


def _ceil_div(a, b):
    return -(-a // b)


def _worker():
    """Returns the number of this process among the workers of PyTorch's loader, and the number of workers."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (0, 1) if info is None else (info.id, info.num_workers)


def split(dataset, test_size, seed):
    """Splits the rows into two parts; see ``Dataset.train_test_split``."""
    rows = len(dataset)
    if isinstance(test_size, float) and 0 < test_size < 1:
        # Rounds up, as Hugging Face and scikit-learn do.
        test_rows = ceil(rows * test_size)
    elif isinstance(test_size, int) and not isinstance(test_size, bool) and 0 <= test_size <= rows:
        test_rows = test_size
    else:
        expected = f"a part between 0.0 and 1.0, or a number of rows from 0 to {rows}"
        raise InvalidArgument(f"train_test_split: expected test_size to be {expected}, got {test_size!r}")
    shuffled = dataset.shuffle(seed)
    return shuffled[: rows - test_rows], shuffled[rows - test_rows :]
