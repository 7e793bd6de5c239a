"""Rounds of a table with partitions, each of which has a model of its own."""

import os
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from kinds import PARTITIONS, Kind, row_seconds
from oracle import Model, Snapshot, Violation
from round import CHANGES, Call, Round, describe_difference

CHANGES |= {"p: append", "p: commit", "p: settle", "p: compact", "p: alter", "p: drop rows", "p: drop", "p: rollback"}
CHANGES |= {"p: sync", "p: close", "p: open_writer"}

MAX_ADDED_COLUMNS = 3


class PartitionSnapshot(NamedTuple):
    """The knowledge about a partition at the beginning of a call."""

    model: Snapshot
    existed: bool


class HeldFollower(NamedTuple):
    snapshot: dict[str, PartitionSnapshot]
    # The next row of each partition that the follower has begun.
    next_rows: dict[str, int]


def partition_of(row_id: int) -> str:
    return PARTITIONS[row_id % len(PARTITIONS)]


class PartitionedRound(Round):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kind = Kind.random(self.rng)
        self.models = {key: Model(self.kind) for key in PARTITIONS}
        # How many columns were added, including those of calls that were killed.
        self.added = 0
        self.next_id = 0
        self.was_attempted = False
        # The partition that a call is removing. If the call is killed, this remains set until the next look at it.
        self.partition_being_dropped: str | None = None

    def describe(self):
        return f"partitions of {self.kind}"

    def snapshot(self):
        return {
            key: PartitionSnapshot(model.snapshot(), self.partition_exists(key)) for key, model in self.models.items()
        }

    def partition_exists(self, key):
        return self.models[key].exists and key != self.partition_being_dropped

    def table_exists(self):
        return any(self.partition_exists(key) for key in self.models)

    def on_page_cache_lost(self):
        for model in self.models.values():
            model.lose_page_cache()

    def on_death(self, worker, call):
        if worker.has_writer and not any(other.has_writer for other in self.workers if other is not worker):
            self.forget_pending()

    def forget_pending(self):
        for model in self.models.values():
            model.pending = []

    def explains_error(self, worker, call, error_name):
        if error_name == "NotFound" and call.label == "p: alter":
            if not all(model.exists for model in self.models.values()):
                # A partition was being created, and is a directory without a table.
                return True
        if error_name not in ("NotFound", "FileChanged", "RowOutOfRange"):
            return False
        # Rows were dropped or sorted meanwhile.
        for key, snapshot in self.snapshot_of_reader(worker, call).items():
            model = self.models[key]
            if snapshot.model.first_row < model.max_first_row or snapshot.model.order < len(model.orders) - 1:
                return True
        return False

    def snapshot_of_reader(self, worker, call) -> dict[str, PartitionSnapshot]:
        """Returns what was known when the call's dataset or follower was opened, or when the call began."""
        name = call.arguments.get("name")
        if name in worker.followers:
            return worker.followers[name].snapshot
        return worker.datasets.get(name, call.snapshot)

    def schema(self):
        added_columns = "".join(f", new{i}: int64" for i in range(self.added))
        return self.kind.schema() + ", key: utf8 not null" + added_columns

    def check_final_state(self):
        if not self.was_attempted:
            return
        self.replace_worker(self.workers[0])
        self.replace_worker(self.workers[1])
        for number, make_call in ((0, self.call_settle), (0, self.call_check), (1, self.call_open_settled)):
            worker = self.workers[number]
            call = make_call(worker)
            if call:
                self.send(worker, call)
                self.wait_for_answers([worker])

    # ---- choices ----

    def choose_call(self, worker):
        is_changing = self.is_table_changing()
        if worker.has_writer:
            call = self.choose_write(worker)
        elif not self.is_certain() and not is_changing and not self.has_writer():
            call = self.call_settle(worker)
        elif not self.has_writer() and not is_changing and self.rng.random() < 0.5 or not self.was_attempted:
            call = self.choose_change(worker)
        else:
            call = self.choose_read(worker)
        if call and self.can_trap and call.label not in ("abandon", "p: drop"):
            if self.rng.random() < self.trap_probability:
                self.set_trap(call)
        return call

    def is_certain(self):
        return self.partition_being_dropped is None and all(model.is_certain for model in self.models.values())

    def choose_write(self, worker):
        if worker.is_poisoned:
            return self.call_abandon(worker)
        choices = [
            (10, self.call_append),
            (10, self.call_commit),
            (2, self.call_sync),
            (1, self.call_rollback),
            (3, self.call_close),
            (2, self.call_open),
        ]
        return self.choose_weighted(choices)(worker)

    def choose_change(self, worker):
        choices = [(10, self.call_open_writer)]
        if self.table_exists() and self.is_certain():
            choices += [
                (6, self.call_compact),
                (6, self.call_alter),
                (6, self.call_drop_rows),
                (6, self.call_drop_partition),
            ]
        return self.choose_weighted(choices)(worker)

    def choose_read(self, worker):
        choices = [(6, self.call_open), (1, self.call_check), (3, self.call_follow)]
        if worker.datasets:
            choices += [(6, self.call_refresh)]
        return self.choose_weighted(choices)(worker)

    def change_call(self, label, command, arguments, on_success):
        return Call(label, command, {"path": self.path, **arguments}, on_success, self.on_change_failed)

    def on_change_failed(self, worker, call, reply):
        """Abandons the writer: it is not known what the call did, and a new writer or reader will tell."""
        if worker.has_writer:
            worker.is_poisoned = True

    # ---- calls of a writer ----

    def call_open_writer(self, worker):
        options = {"segment_rows": self.rng.choice([1, 2, 3, 5, 8, 40])}
        options["sync"] = self.rng.choice(["never", "never", "commit", 0.01, None])
        options["dictionary"] = self.kind.dictionary or None
        if self.kind.sorted_by:
            options |= {"sorted_by": "ts", "late": "accept" if self.kind.late else "refuse"}
        self.was_attempted = True
        arguments = {"schema": self.schema(), "options": options}
        return self.change_call("p: open_writer", "open_partitioned", arguments, self.on_writer_opened)

    def on_writer_opened(self, worker, call, reply):
        worker.has_writer, worker.is_poisoned, worker.may_fail = True, False, self.is_full
        self.forget_pending()

    def call_append(self, worker):
        count = self.rng.choice([1, 2, 3, 5, 8])
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        columns = [*self.kind.columns, "key", *(f"new{i}" for i in range(self.added))]
        rows = []
        for row_id in ids:
            self.models[partition_of(row_id)].added_columns_of[row_id] = self.added
            rows.append(self.expected_row(row_id, columns))
        arguments = {"rows": rows, "way": self.rng.choice(["columns", "rows", "row by row"])}
        return Call("p: append", "append", arguments, partial(self.on_appended, ids), self.on_change_failed)

    def on_appended(self, ids, worker, call, reply):
        for row_id in ids:
            model = self.models[partition_of(row_id)]
            model.pending.append(row_id)
            model.mark_created()

    def expected_row(self, row_id, columns):
        return self.models[partition_of(row_id)].expected_row(row_id, columns)

    def call_commit(self, worker):
        durable = self.rng.random() < 0.3
        self.begin_commits()
        arguments = {"durable": durable}
        return Call("p: commit", "commit_partitioned", arguments, self.on_committed, self.on_change_failed)

    def begin_commits(self):
        for model in self.models.values():
            if model.pending:
                model.was_attempted = True
                model.begin_commit(None)

    def on_committed(self, worker, call, reply):
        for model in self.models.values():
            if model.pending:
                model.confirm_commit(len(model.commits) - 1)
                model.mark_created()
                model.pending = []
        if call.arguments.get("durable"):
            self.mark_durable()

    def mark_durable(self):
        """Records that all commits are durable, including commits of earlier writers."""
        for model in self.models.values():
            model.mark_durable(model.known_commit)

    def call_sync(self, worker):
        return Call("p: sync", "sync", {"wait": False}, self.on_synced, self.on_change_failed)

    def on_synced(self, worker, call, reply):
        self.mark_durable()

    def call_rollback(self, worker):
        return Call("p: rollback", "rollback", {}, self.on_rolled_back, self.on_change_failed)

    def on_rolled_back(self, worker, call, reply):
        self.forget_pending()

    def call_close(self, worker):
        # A writer commits when it is closed.
        self.begin_commits()
        return Call("p: close", "close", {}, self.on_closed, self.on_change_failed)

    def on_closed(self, worker, call, reply):
        self.on_committed(worker, call, reply)
        self.mark_durable()
        worker.has_writer = False

    def call_abandon(self, worker):
        return Call("abandon", "abandon", {}, self.on_abandoned)

    def on_abandoned(self, worker, call, reply):
        worker.has_writer = False
        self.forget_pending()

    def call_settle(self, worker):
        """Opens a writer of each partition, which decides which commits exist."""
        keys = [key for key, model in self.models.items() if model.was_attempted or model.exists]
        if not keys:
            return None
        arguments = {"schema": self.schema(), "keys": keys}
        return self.change_call("p: settle", "settle_partitions", arguments, self.on_settled)

    def on_settled(self, worker, call, reply):
        for key, committed_rows in reply["result"].items():
            if key == self.partition_being_dropped and committed_rows == 0:
                # The killed call had removed the partition, and this call has created it again.
                self.models[key] = Model(self.kind)
            model = self.models[key]
            since_known_commit = Snapshot(model.known_commit, 0, 0)
            model.confirm_commit(model.find_commit(since_known_commit, committed_rows, {}))
            model.mark_durable(model.known_commit)
            model.mark_created()
        self.partition_being_dropped = None
        self.send_and_wait(worker, self.call_open_settled(worker))

    def call_open_settled(self, worker):
        arguments = {"path": self.path, "name": "settled", "query": ("parts",)}
        return Call("p: open", "open_partitions", arguments, self.on_opened)

    def call_compact(self, worker):
        directories = {}
        for name in os.listdir(self.path):
            if name.startswith("key="):
                directories[unquote(name.removeprefix("key="))] = name
        keys = sorted(key for key in directories if self.models[key].exists)
        if not keys:
            return None
        key = self.rng.choice(keys)
        model = self.models[key]
        sort = self.kind.late and self.rng.random() < 0.3
        if sort:
            model.orders.append(model.sorted_order(model.end))
        rewrite = self.rng.random() < 0.3 and not sort
        arguments = {"path": f"{self.path}/{directories[key]}", "sort": sort, "rewrite": rewrite}
        return Call("p: compact", "compact", arguments, partial(self.on_compacted, model), self.on_change_failed)

    def on_compacted(self, model, worker, call, reply):
        if call.arguments["sort"]:
            model.min_order = model.durable_order = len(model.orders) - 1

    def call_alter(self, worker):
        if self.added == MAX_ADDED_COLUMNS:
            return None
        # From now on any partition may have the column, even if the call is killed.
        self.added += 1
        change = {"add": f"new{self.added - 1}: int64"}
        return self.change_call("p: alter", "alter", {"change": change}, self.on_altered)

    def on_altered(self, worker, call, reply):
        """Changes nothing: the column is counted when the call begins."""

    def call_drop_rows(self, worker):
        key = self.rng.choice([key for key, model in self.models.items() if model.exists])
        model = self.models[key]
        row = self.rng.randrange(model.min_first_row, model.end + 1)
        first_row = model.min_first_row
        model.max_first_row = max(model.max_first_row, row)
        on_success = partial(self.on_rows_dropped, model, first_row)
        return self.change_call("p: drop rows", "drop_rows_of_partition", {"key": key, "row": row}, on_success)

    def on_rows_dropped(self, model, first_row, worker, call, reply):
        row = call.arguments["row"]
        model.min_first_row = model.max_first_row = model.durable_first_row = first_row + reply["result"]
        if model.min_first_row > max(row, first_row):
            raise Violation(f"rows up to {model.min_first_row} dropped, more than up to {row}")

    def call_drop_partition(self, worker):
        if any(other.call for other in self.workers) or self.is_full or self.is_read_only:
            return None
        key = self.rng.choice([key for key, model in self.models.items() if model.exists])
        # Readers of the old partition would find rows of a new one under the same numbers.
        for other in self.workers:
            if other is not worker:
                self.kill_worker(other)
        worker.datasets.clear()
        worker.followers.clear()
        self.partition_being_dropped = key
        return self.change_call("p: drop", "drop_partition", {"key": key}, self.on_partition_dropped)

    def on_partition_dropped(self, worker, call, reply):
        key = call.arguments["key"]
        if not reply["result"]:
            raise Violation(f"partition {key} was not there")
        self.models[key] = Model(self.kind)
        self.partition_being_dropped = None
        # A new process has no datasets of the old partition.
        self.kill_worker(worker)

    # ---- calls of a reader ----

    def choose_path(self) -> tuple[str, bool]:
        """Returns the path of the table, and whether it is the one on the second mount."""
        if self.place.can_remount and self.rng.random() < 0.3:
            return self.place.other(self.name), True
        return self.path, False

    def choose_query(self):
        queries = [("parts",), ("parts",), ("all",), ("filter", self.rng.choice(PARTITIONS)), ("sums",)]
        if self.kind.sorted_by:
            low = self.rng.randrange(self.next_id // 3 + 1)
            queries.append(("between", low, low + self.rng.randrange(10)))
        return self.rng.choice(queries)

    def call_open(self, worker):
        path, is_other = self.choose_path()
        arguments = {"path": path, "name": self.rng.choice("abc"), "query": self.choose_query()}
        call = Call("p: open", "open_partitions", arguments, self.on_opened)
        call.uses_other_mount = is_other
        return call

    def call_refresh(self, worker):
        name = self.rng.choice(sorted(worker.datasets))
        arguments = {"name": name, "query": self.choose_query()}
        return Call("p: refresh", "refresh_partitions", arguments, self.on_opened)

    def on_opened(self, worker, call, reply):
        """Checks a dataset that was opened or refreshed."""
        answer = reply["result"]
        name = call.arguments["name"]
        held_snapshot = worker.datasets.get(name) if call.label == "p: refresh" else None
        for key, snapshot in call.snapshot.items():
            if key in answer["shapes"]:
                held = held_snapshot[key] if held_snapshot else None
                self.check_shape(key, snapshot, held, answer["shapes"][key])
            elif snapshot.existed:
                raise Violation(f"there is no partition {key}")
        if unknown := set(answer["shapes"]) - set(call.snapshot):
            raise Violation(f"partitions {unknown}")
        min_orders = {key: snapshot.model.order for key, snapshot in call.snapshot.items()}
        if held_snapshot:
            for key, order in min_orders.items():
                min_orders[key] = min(order, held_snapshot[key].model.order)
        self.check_answer(answer, min_orders)
        worker.datasets[name] = call.snapshot
        if not self.has_changed_since(call) and answer["kind"] == "parts" and call.label == "p: open":
            self.narrow_models(answer["shapes"])

    def narrow_models(self, shapes):
        """Excludes states that a new dataset disproves, when nothing has changed the table meanwhile."""
        for key, (first_row, _) in shapes.items():
            model = self.models[key]
            model.min_first_row = model.max_first_row = first_row
            del model.orders[model.min_order + 1 :]

    def check_shape(self, key, snapshot, held, shape):
        """Checks the first row and the number of rows of a partition."""
        model, (first_row, count) = self.models[key], shape
        min_first_row = snapshot.model.first_row
        if held:
            min_first_row = min(min_first_row, held.model.first_row)
        try:
            model.check_first_row(min_first_row, first_row)
            index = model.find_commit(snapshot.model, first_row + count, {})
        except Violation as e:
            raise Violation(f"partition {key}: {e}") from None
        model.known_commit = max(model.known_commit, index)
        model.exists = True

    def check_answer(self, answer, min_orders):
        """Compares the answer to a query with the rows of each partition, in one of its possible orders."""
        kind, actual, columns = answer["kind"], answer["result"], answer["columns"]
        # The ids of the partition's rows, for each of its possible orders.
        candidates = {}
        for key, (first_row, count) in answer["shapes"].items():
            orders = self.models[key].orders[min_orders[key] :]
            candidates[key] = [order[first_row : first_row + count] for order in orders]
        if kind == "parts":
            for key, rows in actual.items():
                self.check_rows(key, rows, candidates[key], columns)
            return
        if kind == "sums":
            ids = [row_id for orders in candidates.values() for row_id in orders[0]]
            expected = (sum(ids), len(ids))
            if actual != expected:
                raise Violation(f"sum and count {actual}, expected {expected}")
            return
        rows_by_key = {}
        for row in actual:
            rows_by_key.setdefault(row["key"], []).append(row)
        for key in rows_by_key:
            if key not in candidates:
                raise Violation(f"rows of a partition {key}")
        for key, orders in candidates.items():
            selected = self.select_rows(kind, answer["arguments"], key, orders)
            self.check_rows(key, rows_by_key.get(key, []), selected, columns)

    def select_rows(self, kind, arguments, key, orders):
        """Returns the ids that a query selects from a partition, for each of its possible orders."""
        if kind == "filter" and key != arguments[0]:
            return [[]]
        if kind != "between":
            return orders
        low, high = arguments
        is_late = self.kind.late
        return [[row_id for row_id in ids if low <= row_seconds(row_id, is_late) <= high] for ids in orders]

    def check_rows(self, key, actual, candidates, columns):
        for ids in candidates:
            expected = [self.expected_row(row_id, columns) for row_id in ids]
            if actual == expected:
                return
        raise Violation(f"partition {key}: {describe_difference(actual, expected)}")

    def call_follow(self, worker):
        path, is_other = self.choose_path()
        name = self.rng.choice(["one", "two"])
        arguments = {"path": path, "name": name, "start": 0, "timeout": self.rng.choice([0, 0, 0.02])}
        call = Call("p: follow", "follow", arguments, self.on_followed, self.on_follow_failed)
        call.uses_other_mount = is_other
        return call

    def on_followed(self, worker, call, reply):
        follower = worker.followers.setdefault(call.arguments["name"], HeldFollower(call.snapshot, {}))
        for first_row, columns, rows in reply["result"]["parts"]:
            self.check_followed_rows(follower, first_row, columns, rows)
        for key, snapshot in call.snapshot.items():
            if not snapshot.existed:
                continue
            model = self.models[key]
            min_end = model.commits[snapshot.model.commit].end
            end = follower.next_rows.get(key, 0)
            # A follower returns nothing of a partition whose rows may all have been dropped.
            if end < min_end and (end or min_end > model.max_first_row):
                raise Violation(f"partition {key}: a follower ended at row {end}, before {min_end}")

    def check_followed_rows(self, follower, first_row, columns, rows):
        key = rows[0]["key"]
        model, snapshot = self.models[key], follower.snapshot[key].model
        if key not in follower.next_rows:
            # A follower begins with the first row that exists.
            model.check_first_row(snapshot.first_row, first_row)
            follower.next_rows[key] = first_row
        next_row = follower.next_rows[key]
        if first_row != next_row:
            raise Violation(f"partition {key}: rows from {first_row} on, expected from {next_row} on")
        candidates = [order[first_row : first_row + len(rows)] for order in model.orders[snapshot.order :]]
        self.check_rows(key, rows, candidates, columns)
        follower.next_rows[key] += len(rows)

    def on_follow_failed(self, worker, call, reply):
        worker.followers.pop(call.arguments["name"], None)

    def call_check(self, worker):
        path, is_other = self.choose_path()
        call = Call("p: check", "check", {"path": path}, self.on_checked)
        call.uses_other_mount = is_other
        return call

    def on_checked(self, worker, call, reply):
        report = reply["result"]
        if not report["good"]:
            raise Violation(f"damage: {report}")
        min_rows = max_rows = 0
        for key, snapshot in call.snapshot.items():
            model = self.models[key]
            if snapshot.existed:
                min_rows += model.commits[snapshot.model.commit].end - model.max_first_row
            max_rows += model.commits[-1].end - snapshot.model.first_row
        if not min_rows <= report["rows"] <= max_rows:
            raise Violation(f"{report['rows']} rows, expected {min_rows} to {max_rows}")
