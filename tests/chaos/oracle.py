"""What is known of a table from what its writer was told: what a reader may see, and what it must."""

from dataclasses import dataclass, field

from kinds import seconds


class Wrong(Exception):
    """A table did not keep its promise."""


@dataclass
class Commit:
    """A commit: the row after its last one, the positions, and how many columns were added to the table so far."""

    end: int
    positions: dict
    added: int


@dataclass
class Since:
    """What was known when a call began."""

    low: int
    first: int
    order: int
    # The first row as readers were told of it that have the table open.
    told: int = 0


@dataclass
class Model:
    kind: object
    # The commits in order: those up to `low` were acknowledged or seen, those behind may be there or not.
    commits: list = field(default_factory=lambda: [Commit(0, {}, 0)])
    low: int = 0
    # The last commit that survives the loss of the page cache.
    durable: int = 0
    # The first row is one of these, and that which survives.
    first: int = 0
    first_most: int = 0
    first_durable: int = 0
    # Up to here a call has removed rows and told readers that have the table open.
    told: int = 0
    # The ids of rows by number, for each order that the rows had; those before `order` are gone.
    orders: list = field(default_factory=lambda: [[]])
    order: int = 0
    order_durable: int = 0
    # Appended, not committed.
    pending: list = field(default_factory=list)
    # By id: how many added columns the table had then.
    born: dict = field(default_factory=dict)
    # The next id. Ids are never used again.
    fresh: int = 0
    # Whether the table is there for certain; whether a writer has said that it made or opened it, so that it survives
    # the loss of the page cache; whether its making was tried.
    exists: bool = False
    made: bool = False
    tried: bool = False
    # Rows were removed by a call that did not say so to readers, as it was killed.
    quiet: bool = False

    # ---- what is known ----

    def since(self):
        return Since(self.low, self.first, self.order, self.told)

    @property
    def end(self):
        return self.commits[self.low].end

    @property
    def last(self):
        return self.commits[self.low]

    @property
    def is_certain(self):
        return (
            self.low == len(self.commits) - 1 and self.first == self.first_most and self.order == len(self.orders) - 1
        )

    def columns(self, added):
        return [*self.kind.columns, *(f"new{i}" for i in range(added))]

    def expected(self, row, columns):
        """The row with this id as a dict."""
        values = self.kind.row(row, columns)
        for name in columns:
            if name.startswith("new") and int(name[3:]) >= self.born[row]:
                values[name] = None
        return values

    # ---- what a writer does ----

    def append(self, count):
        """The ids of new rows."""
        rows = list(range(self.fresh, self.fresh + count))
        self.fresh += count
        for row in rows:
            self.born[row] = self.last.added
        return rows

    def give_up(self):
        """Forgets commits that are known not to be there."""
        del self.commits[self.low + 1 :]
        for order in self.orders:
            del order[self.end :]

    def attempt(self, positions, added=None):
        """A commit of the pending rows begins."""
        last = self.commits[-1]
        self.commits.append(
            Commit(
                last.end + len(self.pending),
                last.positions | (positions or {}),
                last.added if added is None else added,
            )
        )
        for order in self.orders:
            order.extend(self.pending)

    def may_keep(self, keeps):
        """Rows may be dropped that are older than the newest by so many seconds."""
        order = self.orders[-1]
        times = [seconds(row, self.kind.late) for row in order]
        if times:
            newest = max(times[self.first :], default=0)
            # Whatever rows were dropped before.
            first = self.first_most
            kept = (number for number in range(first, len(times)) if times[number] >= newest - keeps)
            self.first_most = next(kept, first)

    def settle(self, index):
        """The newest commit is this one."""
        if index < self.low:
            raise Wrong(f"the newest commit is {index}, after {self.low} was acknowledged")
        self.low = index
        self.give_up()

    def be_made(self):
        self.exists = self.made = True

    def be_durable(self, index):
        self.durable = max(self.durable, index)

    def rows_durable(self, rows):
        """A writer says that the rows before this one are durable."""
        for index in range(len(self.commits)):
            if self.commits[index].end <= rows and index <= self.low:
                if index == 0 or self.commits[index].end > self.commits[self.durable].end:
                    self.be_durable(index)

    def sorted_order(self, stop):
        """The order of rows once those before number `stop` are sorted."""
        order = self.orders[-1]
        start = self.first_most
        by_time = sorted(order[start:stop], key=lambda row: seconds(row, self.kind.late))
        return [*order[:start], *by_time, *order[stop:]]

    def lose(self):
        """The page cache is lost: what is durable is there, and some of what is not."""
        self.low = self.durable
        self.first = self.told = self.first_durable
        self.order = self.order_durable
        self.pending = []
        self.exists = self.made

    # ---- what a reader sees ----

    def find(self, since, end, positions, added=None):
        """The number of the commit that was seen; how many columns were added may be unknown."""
        for index in range(since.low, len(self.commits)):
            it = self.commits[index]
            if (it.end, it.positions) == (end, positions) and added in (None, it.added):
                return index
        wanted = [(it.end, it.positions, it.added) for it in self.commits[since.low :]]
        raise Wrong(f"rows up to {end}, positions {positions}, {added} columns added; expected one of {wanted}")

    def find_first(self, least, first):
        if not least <= first <= self.first_most:
            raise Wrong(f"the first row is {first}, expected {least} to {self.first_most}")

    def match(self, since, found, columns):
        """Compares rows, a list of row number and dict, with those of an order; returns the orders that fit."""
        said = None
        for number in range(since.order, len(self.orders)):
            said = self.mismatch(self.orders[number], found, columns)
            if said is None:
                return number
        raise Wrong(said)

    def mismatch(self, order, found, columns):
        for number, row in found:
            if number >= len(order):
                return f"row {number} was never committed: {row}"
            want = self.expected(order[number], columns)
            if row != want or list(row) != list(want):
                return f"row {number} is {row}, expected {want}"
        return None
