"""A model of a table: it follows from the calls of its writers what a reader may see, and what it must see."""

from dataclasses import dataclass, field

from kinds import Kind, row_seconds


class Violation(Exception):
    """A table broke a guarantee."""


@dataclass
class Commit:
    # The number of the row after its last row.
    end: int
    positions: dict[str, int]
    # How many columns were added to the table so far.
    added: int


@dataclass
class Snapshot:
    """The knowledge about a table at the beginning of a call."""

    commit: int
    first_row: int
    order: int
    announced_first_row: int = 0


@dataclass
class Model:
    kind: Kind
    # All commits in order. Commits up to `known_commit` were acknowledged or seen; later ones may exist or not.
    commits: list[Commit] = field(default_factory=lambda: [Commit(0, {}, 0)])
    known_commit: int = 0
    # The last commit that survives the loss of the page cache.
    durable_commit: int = 0
    # The first row of the table is one of `min_first_row ..= max_first_row`; `durable_first_row` survives the loss of
    # the page cache.
    min_first_row: int = 0
    max_first_row: int = 0
    durable_first_row: int = 0
    # Rows before this one were removed by calls that told readers which have the table open.
    announced_first_row: int = 0
    # The ids of the rows, for each order that the rows have had. Orders before `min_order` no longer exist.
    orders: list[list[int]] = field(default_factory=lambda: [[]])
    min_order: int = 0
    durable_order: int = 0
    # Ids of appended rows that are not committed.
    pending: list[int] = field(default_factory=list)
    # How many added columns the table had when a row was appended, by id.
    added_columns_of: dict[int, int] = field(default_factory=dict)
    next_id: int = 0
    # True if the table certainly exists.
    exists: bool = False
    # True if a writer reported that it created or opened the table, so that it survives the loss of the page cache.
    is_created: bool = False
    was_attempted: bool = False
    # True if rows were removed by a call that was killed before it told readers.
    has_unannounced_drop: bool = False

    # ---- what is known ----

    def snapshot(self) -> Snapshot:
        return Snapshot(self.known_commit, self.min_first_row, self.min_order, self.announced_first_row)

    @property
    def end(self) -> int:
        return self.last_commit.end

    @property
    def last_commit(self) -> Commit:
        return self.commits[self.known_commit]

    @property
    def is_certain(self) -> bool:
        """Returns whether only one state of the table is possible."""
        return (
            self.known_commit == len(self.commits) - 1
            and self.min_first_row == self.max_first_row
            and self.min_order == len(self.orders) - 1
        )

    def columns(self, added: int) -> list[str]:
        return [*self.kind.columns, *(f"new{i}" for i in range(added))]

    def expected_row(self, row_id: int, columns: list[str]) -> dict:
        values = self.kind.row(row_id, columns)
        for name in columns:
            if name.startswith("new") and int(name[3:]) >= self.added_columns_of[row_id]:
                values[name] = None
        return values

    # ---- what a writer does ----

    def allocate_ids(self, count: int) -> list[int]:
        """Returns the ids of rows that are to be appended."""
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        for row_id in ids:
            self.added_columns_of[row_id] = self.last_commit.added
        return ids

    def begin_commit(self, positions: dict[str, int] | None, added: int | None = None):
        """Adds a commit of the pending rows, which may exist from now on."""
        last = self.commits[-1]
        end = last.end + len(self.pending)
        self.commits.append(Commit(end, last.positions | (positions or {}), last.added if added is None else added))
        for order in self.orders:
            order.extend(self.pending)

    def confirm_commit(self, index: int):
        """Records that this commit is the newest one of the table."""
        if index < self.known_commit:
            raise Violation(f"the newest commit is {index}, after {self.known_commit} was acknowledged")
        self.known_commit = index
        self.discard_attempts()

    def discard_attempts(self):
        """Removes commits that are known not to exist."""
        del self.commits[self.known_commit + 1 :]
        for order in self.orders:
            del order[self.end :]

    def allow_retention(self, seconds: int):
        """Records that rows may be dropped which are older than the newest row by more than `seconds`."""
        times = [row_seconds(row_id, self.kind.late) for row_id in self.orders[-1]]
        if not times:
            return
        newest = max(times[self.min_first_row :], default=0)
        for number in range(self.max_first_row, len(times)):
            if times[number] >= newest - seconds:
                self.max_first_row = number
                return

    def mark_created(self):
        self.exists = self.is_created = True

    def mark_durable(self, index: int):
        self.durable_commit = max(self.durable_commit, index)

    def mark_rows_durable(self, rows: int):
        """Marks the last commit durable whose rows are all before number `rows`."""
        for index, commit in enumerate(self.commits[: self.known_commit + 1]):
            if commit.end <= rows and (index == 0 or commit.end > self.commits[self.durable_commit].end):
                self.mark_durable(index)

    def sorted_order(self, stop: int) -> list[int]:
        """Returns the order of rows after the rows before number `stop` were sorted."""
        order = self.orders[-1]
        start = self.max_first_row
        by_time = sorted(order[start:stop], key=lambda row_id: row_seconds(row_id, self.kind.late))
        return [*order[:start], *by_time, *order[stop:]]

    def lose_page_cache(self):
        """Records that only durable commits certainly exist. Later ones may exist."""
        self.known_commit = self.durable_commit
        self.min_first_row = self.announced_first_row = self.durable_first_row
        self.min_order = self.durable_order
        self.pending = []
        self.exists = self.is_created

    # ---- what a reader sees ----

    def find_commit(self, snapshot: Snapshot, end: int, positions: dict[str, int], added: int | None = None) -> int:
        """Returns the index of the commit that a reader saw. `added` is None if it didn't see the columns."""
        for index in range(snapshot.commit, len(self.commits)):
            commit = self.commits[index]
            if (commit.end, commit.positions) == (end, positions) and added in (None, commit.added):
                return index
        expected = [(commit.end, commit.positions, commit.added) for commit in self.commits[snapshot.commit :]]
        raise Violation(f"rows up to {end}, positions {positions}, {added} columns added; expected one of {expected}")

    def check_first_row(self, min_first_row: int, first_row: int):
        if not min_first_row <= first_row <= self.max_first_row:
            raise Violation(f"the first row is {first_row}, expected {min_first_row} to {self.max_first_row}")

    def find_order(self, min_order: int, rows: list[tuple[int, dict]], columns: list[str]) -> int:
        """Returns the first order, from `min_order` on, in which the numbered rows are as expected."""
        mismatch = None
        for index in range(min_order, len(self.orders)):
            mismatch = self.find_mismatch(self.orders[index], rows, columns)
            if mismatch is None:
                return index
        raise Violation(mismatch)

    def find_mismatch(self, order: list[int], rows: list[tuple[int, dict]], columns: list[str]) -> str | None:
        for number, row in rows:
            if number >= len(order):
                return f"row {number} was never committed: {row}"
            expected = self.expected_row(order[number], columns)
            if row != expected or list(row) != list(expected):
                return f"row {number} is {row}, expected {expected}"
        return None
