"""Rounds of one table."""

import os
from dataclasses import dataclass
from functools import partial

from kinds import GROUPS, Kind, row_seconds
from oracle import Model, Snapshot, Violation
from round import CHANGES, Call, Round, WorkerHandle, describe_difference

MAX_ADDED_COLUMNS = 4
# Digits at the beginning of a segment's name: the number of its first row.
SEGMENT_DIGITS = 20


@dataclass
class HeldDataset:
    """A dataset that a worker holds, which must not change."""

    first_row: int
    count: int
    positions: dict
    added: int
    min_order: int


@dataclass
class HeldFollower:
    next_row: int
    min_order: int


class TableRound(Round):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kind = Kind.random(self.rng)
        self.model = Model(self.kind)
        self.options = self.choose_options()

    def describe(self):
        return self.kind

    def snapshot(self):
        return self.model.snapshot()

    def table_exists(self):
        return self.model.exists

    def on_page_cache_lost(self):
        self.model.lose_page_cache()

    def on_death(self, worker, call):
        if call and call.label in ("drop", "commit, keep", "close"):
            self.model.has_unannounced_drop = True
        if worker.has_writer:
            self.forget_pending(worker)

    def forget_pending(self, worker):
        """Forgets the uncommitted rows of a writer that is gone, unless another writer has appended rows since."""
        if not any(other.has_writer for other in self.workers if other is not worker):
            self.model.pending = []

    def check_final_state(self):
        if not self.model.was_attempted:
            return
        self.replace_worker(self.workers[0])
        self.replace_worker(self.workers[1])
        writer_calls = [self.call_open_writer, self.call_settle, self.call_close, self.call_check]
        for worker, make_calls in ((self.workers[0], writer_calls), (self.workers[1], [self.call_settle])):
            for make_call in make_calls:
                call = make_call(worker)
                call.trap = None
                self.send(worker, call)
                self.wait_for_answers([worker])

    def explains_error(self, worker: WorkerHandle, call: Call, error_name: str) -> bool:
        """Returns whether a read failed because its rows were dropped or sorted meanwhile."""
        model, arguments = self.model, call.arguments
        last_order = len(model.orders) - 1
        if call.label in ("read", "refresh", "open"):
            held = worker.datasets.get(arguments["name"]) if call.label != "open" else None
            first_row = held.first_row if held else call.snapshot.first_row
            min_order = held.min_order if held else call.snapshot.order
            if error_name == "NotFound" and first_row < model.max_first_row:
                return call.label != "open" or self.has_changed_since(call)
            return error_name == "FileChanged" and min_order < last_order
        if call.label == "follow":
            follower = worker.followers.get(arguments["name"])
            next_row = follower.next_row if follower else arguments["start"]
            min_order = follower.min_order if follower else call.snapshot.order
            if error_name in ("RowOutOfRange", "NotFound"):
                return next_row < model.max_first_row
            return error_name == "FileChanged" and min_order < last_order
        if call.label == "aggregation":
            min_order = worker.aggregations.get(arguments["name"], call.snapshot.order)
            return error_name == "FileChanged" and min_order < last_order
        return False

    # ---- choices ----

    def choose_call(self, worker):
        if worker.has_writer:
            call = self.choose_write(worker)
        elif not self.has_writer() and self.rng.random() < 0.5 or not self.model.was_attempted:
            call = self.choose_change(worker)
        else:
            call = self.choose_read(worker)
        if call:
            call.may_lack_footers = self.may_drop
        # The first writer after a loss decides which rows are kept, so it is trapped more often.
        probability = 0.8 if call and self.may_drop and call.label == "open_writer" else self.trap_probability
        if call and self.can_trap and call.label != "abandon" and self.rng.random() < probability:
            self.set_trap(call)
        return call

    def choose_write(self, worker):
        if worker.is_poisoned and self.rng.random() < 0.7:
            return self.call_abandon(worker) if self.rng.random() < 0.5 else self.call_close(worker)
        # A stopped reader sees a part of the table before such a change, and the rest after it.
        factor = 5 if self.has_stopped_reader() else 1
        choices = [
            (10, self.call_append),
            (10, self.call_commit),
            (2, self.call_sync),
            (1, self.call_rollback),
            (2, self.call_close),
            (2 * factor, self.call_drop),
            (3 * factor, self.call_compact),
            (2, self.call_open),
            (1, self.call_check),
        ]
        return self.choose_weighted(choices)(worker)

    def choose_change(self, worker):
        running = {other.call.label for other in self.workers if other.call}
        if running & {"sort", "alter"}:
            # The result of these depends on the rows and columns that exist when they begin.
            return self.choose_read(worker) if self.model.exists else None
        choices = [(10, self.call_open_writer)]
        if self.model.exists and self.model.is_certain:
            factor = 5 if self.has_stopped_reader() else 1
            choices += [(3 * factor, self.call_compact), (1, self.call_repair)]
            if not running & CHANGES and not self.has_writer():
                choices += [(4, self.call_alter)]
        return self.choose_weighted(choices)(worker)

    def choose_read(self, worker):
        choices = [(6, self.call_open), (1, self.call_check), (2, self.call_follow), (2, self.call_aggregation)]
        if worker.datasets:
            choices += [(6, self.call_refresh), (4, self.call_read), (1, self.call_forget)]
        running = {other.call.label for other in self.workers if other.call}
        if self.rng.random() < 0.02 and not running & {"sort", "alter"}:
            choices = [(1, self.call_open_writer)]
        return self.choose_weighted(choices)(worker)

    def choose_options(self):
        rng = self.rng
        options = {
            "segment_rows": rng.choice([1, 2, 3, 5, 8, 13, 40, 100]),
            "sync": rng.choice(["never", "never", "commit", 0.01, None]),
        }
        if self.kind.sorted_by and rng.random() < 0.3:
            options["keep"] = f"{rng.choice([2, 5, 20])} s"
        if rng.random() < 0.3:
            options["index"] = [name for name in ("id", "q", "g") if name in self.kind.columns and rng.random() < 0.5]
        return options

    # ---- calls of a writer ----

    def call_open_writer(self, worker):
        options = dict(self.options if self.rng.random() < 0.5 else self.choose_options())
        schema = None
        if not self.model.exists:
            schema = self.kind.schema()
            options |= {"dictionary": self.kind.dictionary or None, "index": self.kind.index or None}
            if self.kind.sorted_by:
                options |= {"sorted_by": "ts", "late": "accept" if self.kind.late else "refuse"}
        self.model.was_attempted = True
        arguments = {"path": self.path, "schema": schema, "options": options}
        return Call("open_writer", "open_writer", arguments, self.on_writer_opened)

    def on_writer_opened(self, worker, call, reply):
        model, state, result = self.model, reply["writer"], reply["result"]
        self.wait_for_other_writers(worker)
        worker.has_writer, worker.is_poisoned, worker.may_fail = True, False, self.is_full
        keep = call.arguments["options"].get("keep")
        worker.retained_seconds = int(keep.split()[0]) if keep else None
        model.mark_created()
        model.pending = []
        added = len(result["columns"]) - len(self.kind.columns)
        previous_end = model.end
        since_known_commit = Snapshot(model.known_commit, 0, 0)
        model.confirm_commit(model.find_commit(since_known_commit, state["committed"], state["positions"], added))
        if state["rows"] != state["committed"]:
            raise Violation(f"rows {state['rows']} of a new writer, {state['committed']} of them committed")
        if result["dropped"] and not self.may_drop:
            raise Violation(f"{result['dropped']} rows dropped, up to {previous_end}")
        self.may_drop = False
        self.check_durable_rows(state)
        self.send_settle(worker)

    def wait_for_other_writers(self, worker):
        """Handles the ends of all earlier writers: a table has one writer, so they have closed it or were killed."""
        for other in self.workers:
            if other is worker:
                continue
            if other.call and (other.has_writer or "kill" in other.call.faults):
                self.wait_for_answers([other])
            if other.has_writer and other.call is None and not other.is_dead:
                self.wait_for_death(other)
            if other.call:
                other.call.is_overtaken = True

    def send_settle(self, worker):
        """Opens the table to learn which of its possible states it has."""
        self.send_and_wait(worker, self.call_settle(worker))

    def call_settle(self, worker):
        return self.call_open_as("settled", ("columns",))

    def check_durable_rows(self, state):
        if state["durable"] > state["committed"]:
            raise Violation(f"{state['durable']} durable rows of {state['committed']}")
        self.model.mark_rows_durable(state["durable"])

    def call_append(self, worker):
        count = self.rng.choice([1, 1, 2, 3, 5, 8, 21])
        ids = self.model.allocate_ids(count)
        way = self.rng.choice(["columns", "rows", "row by row"])
        columns = self.model.columns(self.model.last_commit.added)
        rows = [self.model.expected_row(row_id, columns) for row_id in ids]
        arguments = {"rows": rows, "way": way}
        return Call("append", "append", arguments, partial(self.on_appended, ids), partial(self.on_append_failed, ids))

    def on_appended(self, ids, worker, call, reply):
        self.model.pending += ids
        self.check_writer_state(reply)

    def on_append_failed(self, ids, worker, call, reply):
        state = reply["writer"]
        appended = state["rows"] - state["committed"] - len(self.model.pending)
        if not 0 <= appended <= len(ids) or appended and call.arguments["way"] != "row by row":
            raise Violation(f"{appended} of {len(ids)} rows appended by a call that failed")
        self.model.pending += ids[:appended]

    def check_writer_state(self, reply):
        model, state = self.model, reply["writer"]
        if (state["rows"], state["committed"]) != (model.end + len(model.pending), model.end):
            raise Violation(f"{state} beside {model.end} committed rows and {len(model.pending)} appended")
        if state["positions"] != model.last_commit.positions:
            raise Violation(f"positions {state['positions']}, expected {model.last_commit.positions}")
        self.check_durable_rows(state)

    def call_commit(self, worker):
        positions = None
        if self.rng.random() < 0.5:
            self.names_used += 1
            positions = {self.rng.choice(["queue", "queue/1", "ü"]): self.names_used}
        durable = self.rng.random() < 0.3
        self.model.begin_commit(positions)
        if worker.retained_seconds:
            label = "commit, keep"
            self.model.allow_retention(worker.retained_seconds)
        else:
            label = "commit durably" if durable else "commit"
        arguments = {"durable": durable, "positions": positions}
        return Call(label, "commit", arguments, self.on_committed, self.on_commit_failed)

    def on_committed(self, worker, call, reply):
        model = self.model
        model.confirm_commit(len(model.commits) - 1)
        model.pending = []
        if call.arguments["durable"]:
            model.mark_durable(model.known_commit)
        self.check_writer_state(reply)
        if worker.retained_seconds and model.min_first_row < model.max_first_row:
            self.send_settle(worker)

    def on_commit_failed(self, worker, call, reply):
        model, state = self.model, reply["writer"]
        attempt = model.commits[-1]
        if (state["committed"], state["positions"]) == (attempt.end, attempt.positions):
            model.confirm_commit(len(model.commits) - 1)
            model.pending = []
        else:
            # The writer's next commit may bring these rows or not, and a later read shows which.
            model.discard_attempts()
            model.pending = model.pending[: state["rows"] - state["committed"]]
        self.check_writer_state(reply)

    def call_sync(self, worker):
        return Call("sync", "sync", {"wait": self.rng.random() < 0.5}, self.on_synced)

    def on_synced(self, worker, call, reply):
        self.model.mark_durable(self.model.known_commit)
        self.check_writer_state(reply)

    def call_rollback(self, worker):
        return Call("rollback", "rollback", {}, self.on_rolled_back)

    def on_rolled_back(self, worker, call, reply):
        self.model.pending = []
        self.check_writer_state(reply)

    def call_close(self, worker):
        # A writer commits when it is closed.
        self.model.begin_commit(None)
        if worker.retained_seconds:
            self.model.allow_retention(worker.retained_seconds)
        return Call("close", "close", {}, partial(self.on_closed, len(self.model.commits) - 1), self.on_close_failed)

    def on_closed(self, index, worker, call, reply):
        model = self.model
        worker.has_writer = False
        # If the worker was stopped after the lock was released, another writer may have seen the commit and gone on.
        if not call.is_overtaken:
            model.confirm_commit(index)
            model.pending = []
        model.mark_durable(index)

    def on_close_failed(self, worker, call, reply):
        worker.is_poisoned = True
        self.send_and_wait(worker, self.call_abandon(worker))

    def call_abandon(self, worker):
        return Call("abandon", "abandon", {}, self.on_abandoned)

    def on_abandoned(self, worker, call, reply):
        worker.has_writer = False
        self.forget_pending(worker)

    def call_drop(self, worker):
        model = self.model
        row = self.rng.randrange(model.min_first_row, model.end + 1)
        call = Call("drop", "drop", {"row": row}, self.on_dropped, self.on_drop_failed)
        call.first_row_was_certain = model.min_first_row == model.max_first_row
        model.max_first_row = max(model.max_first_row, row)
        return call

    def on_dropped(self, worker, call, reply):
        model, removed = self.model, reply["result"]
        if call.first_row_was_certain:
            first_row = call.snapshot.first_row + removed
            if first_row > call.arguments["row"] and removed:
                raise Violation(f"rows up to {first_row} dropped, more than up to {call.arguments['row']}")
            model.min_first_row = model.max_first_row = first_row
            model.durable_first_row = model.announced_first_row = first_row
        if removed:
            model.has_unannounced_drop = False
        self.check_writer_state(reply)

    def on_drop_failed(self, worker, call, reply):
        self.model.has_unannounced_drop = True

    def call_compact(self, worker):
        is_alone = worker.has_writer or not (self.has_writer() or self.is_table_changing())
        sort = self.kind.late and is_alone and self.model.is_certain and self.rng.random() < 0.4
        rewrite = not sort and self.rng.random() < 0.3
        if sort:
            label = "sort"
            # A writer sorts its finished segments only.
            stop = self.first_row_of_last_segment() if worker.has_writer else self.model.end
            self.model.orders.append(self.model.sorted_order(stop))
        else:
            label = "rewrite" if rewrite else "compact"
        arguments = {"path": self.path, "rewrite": rewrite, "sort": sort}
        return Call(label, "compact", arguments, self.on_compacted)

    def first_row_of_last_segment(self) -> int:
        first_rows = []
        for name in os.listdir(self.path):
            digits = name[:SEGMENT_DIGITS]
            if name.endswith(".arrow") and digits.isdigit():
                first_rows.append(int(digits))
        return max(first_rows)

    def on_compacted(self, worker, call, reply):
        if call.label == "sort":
            self.model.min_order = self.model.durable_order = len(self.model.orders) - 1
        if worker.has_writer:
            self.check_writer_state(reply)

    def call_alter(self, worker):
        model = self.model
        added = model.last_commit.added
        if self.rng.random() < 0.7 and added < MAX_ADDED_COLUMNS:
            model.begin_commit(None, added=added + 1)
            arguments = {"path": self.path, "change": {"add": f"new{added}: int64"}}
            return Call("alter", "alter", arguments, self.on_column_added, self.on_column_add_failed)
        data_type = self.rng.choice(["int32", "int64"])
        arguments = {"path": self.path, "change": {"widen": {"q": data_type}}}
        return Call("alter", "alter", arguments, self.on_column_widened)

    def on_column_added(self, worker, call, reply):
        self.model.confirm_commit(len(self.model.commits) - 1)
        self.model.mark_created()

    def on_column_add_failed(self, worker, call, reply):
        if reply["error"].name == "Busy":
            self.model.discard_attempts()

    def on_column_widened(self, worker, call, reply):
        """Changes nothing in the model, as values are compared and not types."""

    def call_repair(self, worker):
        return Call("repair", "repair", {"path": self.path}, self.on_checked)

    # ---- calls of a reader ----

    def choose_path(self) -> tuple[str, bool]:
        """Returns the path of the table, and whether it is the one on the second mount."""
        if self.place.can_remount and self.rng.random() < 0.3:
            return self.place.other(self.name), True
        return self.path, False

    def choose_query(self):
        rng, end = self.rng, self.model.end
        low = rng.randrange(self.model.next_id + 1)
        # All queries are rolled before one is chosen, as a seed's sequence of draws must not change.
        queries = [
            ("columns",),
            ("columns",),
            ("rows", [rng.randrange(1000) for _ in range(5)]),
            ("iter",),
            ("slice", rng.randrange(end + 1), rng.randrange(end + 3)),
            ("take", [rng.randrange(1000) for _ in range(5)]),
            ("filter", low, low + rng.randrange(20)),
            ("sums",),
            ("groups",),
            ("messages",),
            ("validate",),
            ("nothing",),
            ("nothing",),
        ]
        if self.kind.sorted_by:
            queries += [("between", low // 3, low // 3 + rng.randrange(30))]
        return rng.choice(queries)

    def call_open(self, worker):
        path, is_other = self.choose_path()
        self.names_used += 1
        call = self.call_open_as(f"held {self.names_used % 3}", self.choose_query(), path)
        call.uses_other_mount = is_other
        return call

    def call_open_as(self, name, query, path=None):
        return Call("open", "open", {"path": path or self.path, "name": name, "query": query}, self.on_opened)

    def on_opened(self, worker, call, reply):
        answer, model, snapshot = reply["result"], self.model, call.snapshot
        added = self.count_added_columns(answer["columns"])
        model.check_first_row(snapshot.first_row, answer["first"])
        index = model.find_commit(snapshot, answer["first"] + answer["count"], answer["positions"], added)
        # A commit that was seen is committed.
        model.known_commit = max(model.known_commit, index)
        order = self.find_order(snapshot.order, answer)
        held = HeldDataset(answer["first"], answer["count"], answer["positions"], added, snapshot.order)
        worker.datasets[call.arguments["name"]] = held
        model.exists = True
        self.narrow_model(call, answer, order)

    def narrow_model(self, call, answer, order):
        """Excludes states of the table that a new dataset disproves, if nothing changed the table meanwhile."""
        model = self.model
        model.min_first_row = max(model.min_first_row, answer["first"])
        if self.has_changed_since(call):
            return
        model.max_first_row = answer["first"]
        if not model.has_unannounced_drop:
            model.announced_first_row = model.min_first_row
        if answer["kind"] in ("columns", "iter"):
            model.min_order = order
            del model.orders[order + 1 :]

    def count_added_columns(self, columns: list[str]) -> int:
        added = len(columns) - len(self.kind.columns)
        if columns != self.model.columns(added):
            raise Violation(f"columns {columns}")
        return added

    def call_refresh(self, worker):
        name = self.rng.choice(sorted(worker.datasets))
        return Call("refresh", "refresh", {"name": name, "query": self.choose_query()}, self.on_refreshed)

    def on_refreshed(self, worker, call, reply):
        answer, model, snapshot = reply["result"], self.model, call.snapshot
        held = worker.datasets[call.arguments["name"]]
        added = self.count_added_columns(answer["columns"])
        # Readers that have the table open are told after the rows are removed.
        model.check_first_row(snapshot.announced_first_row, answer["first"])
        index = model.find_commit(snapshot, answer["first"] + answer["count"], answer["positions"], added)
        model.known_commit = max(model.known_commit, index)
        min_order = min(held.min_order, snapshot.order)
        self.find_order(min_order, answer)
        refreshed = HeldDataset(answer["first"], answer["count"], answer["positions"], added, min_order)
        worker.datasets[call.arguments["name"]] = refreshed

    def call_read(self, worker):
        name = self.rng.choice(sorted(worker.datasets))
        return Call("read", "read", {"name": name, "query": self.choose_query()}, self.on_read)

    def on_read(self, worker, call, reply):
        answer, held = reply["result"], worker.datasets[call.arguments["name"]]
        added = self.count_added_columns(answer["columns"])
        actual = (answer["first"], answer["count"], answer["positions"], added)
        expected = (held.first_row, held.count, held.positions, held.added)
        if actual != expected:
            raise Violation(f"a dataset has changed from {expected} to {actual}")
        self.find_order(held.min_order, answer)

    def find_order(self, min_order: int, answer: dict) -> int:
        """Returns the first order of rows, from `min_order` on, with which the answer to a query agrees."""
        difference = None
        for index in range(min_order, len(self.model.orders)):
            difference = self.find_difference(self.model.orders[index], answer)
            if difference is None:
                return index
        end = answer["first"] + answer["count"]
        raise Violation(f"{answer['kind']} {answer['arguments']} of rows {answer['first']} to {end}: {difference}")

    def find_difference(self, order: list[int], answer: dict) -> str | None:
        kind, arguments, actual = answer["kind"], answer["arguments"], answer["result"]
        ids = order[answer["first"] : answer["first"] + answer["count"]]
        if len(ids) < answer["count"]:
            return f"{answer['count']} rows, expected {len(ids)}"
        expected_rows = partial(self.expected_rows, columns=answer["columns"])
        match kind:
            case "columns":
                actual = [dict(zip(actual, row)) for row in zip(*actual.values())]
                expected = expected_rows(ids)
            case "iter":
                expected = expected_rows(ids)
            case "rows":
                numbers = [number for number, _, _ in actual]
                rows = expected_rows(ids[number] for number in numbers)
                expected = [(number, row, tuple(row.values())) for number, row in zip(numbers, rows)]
            case "slice":
                start, stop = arguments
                expected = expected_rows(ids[start:stop])
            case "take":
                expected = expected_rows(ids[i % len(ids)] for i in arguments[0]) if ids else []
            case "filter":
                low, high = arguments
                expected = expected_rows(row_id for row_id in ids if low <= row_id < high)
            case "between":
                low, high = arguments
                expected = expected_rows(it for it in ids if low <= row_seconds(it, self.kind.late) <= high)
            case "sums":
                # The minimum and maximum of no rows are not compared.
                expected = (sum(ids), min(ids), max(ids), len(ids)) if ids else actual
            case "groups":
                expected = expected_groups(ids)
            case _:
                return None
        return None if actual == expected else describe_difference(actual, expected)

    def expected_rows(self, ids, columns):
        return [self.model.expected_row(row_id, columns) for row_id in ids]

    def call_follow(self, worker):
        name = "follower" if self.rng.random() < 0.8 else "second"
        model = self.model
        start = self.rng.randrange(model.max_first_row, max(model.end, model.max_first_row) + 1)
        start = min(start, model.end)
        path, is_other = self.choose_path()
        arguments = {"path": path, "name": name, "start": start}
        call = Call("follow", "follow", arguments, self.on_followed, self.on_follow_failed)
        call.uses_other_mount = is_other
        return call

    def on_followed(self, worker, call, reply):
        model, answer = self.model, reply["result"]
        new_follower = HeldFollower(call.arguments["start"], call.snapshot.order)
        follower = worker.followers.setdefault(call.arguments["name"], new_follower)
        for first_row, columns, rows in answer["parts"]:
            if first_row != follower.next_row:
                raise Violation(f"rows from {first_row} on, expected from {follower.next_row} on")
            self.count_added_columns(columns)
            model.find_order(follower.min_order, list(enumerate(rows, first_row)), columns)
            follower.next_row += len(rows)
        if answer["next"] != follower.next_row:
            raise Violation(f"goes on with row {answer['next']}, after rows up to {follower.next_row}")
        min_end = model.commits[min(call.snapshot.commit, len(model.commits) - 1)].end
        if follower.next_row < min_end:
            raise Violation(f"a follower ended at row {follower.next_row}, before {min_end}")

    def on_follow_failed(self, worker, call, reply):
        worker.followers.pop(call.arguments["name"], None)
        if not reply["struck"]:
            self.send(worker, self.call_forget(worker, call.arguments["name"]))

    def call_aggregation(self, worker):
        arguments = {"path": self.path, "name": "sums"}
        return Call("aggregation", "aggregation", arguments, self.on_aggregated, self.on_aggregation_failed)

    def on_aggregated(self, worker, call, reply):
        model, snapshot, actual = self.model, call.snapshot, reply["result"]
        min_order = worker.aggregations.setdefault(call.arguments["name"], snapshot.order)
        candidates = []
        for order in model.orders[min_order:]:
            for commit in model.commits[snapshot.commit :]:
                for first_row in range(snapshot.announced_first_row, model.max_first_row + 1):
                    ids = order[first_row : commit.end]
                    first_id = ids[0] if ids else None
                    last_id = ids[-1] if ids else None
                    expected = {"n": len(ids), "s": sum(ids), "a": first_id, "z": last_id}
                    if actual == [expected]:
                        return
                    candidates.append(expected)
        raise Violation(f"{actual}, expected one of {candidates[:20]}")

    def on_aggregation_failed(self, worker, call, reply):
        if not reply["struck"]:
            worker.aggregations.pop(call.arguments["name"], None)
            self.send(worker, self.call_forget(worker, call.arguments["name"]))

    def call_forget(self, worker, name=None):
        name = name or self.rng.choice(sorted(worker.datasets))
        return Call("forget", "forget", {"name": name}, self.on_forgotten)

    def on_forgotten(self, worker, call, reply):
        for objects in (worker.datasets, worker.followers, worker.aggregations):
            objects.pop(call.arguments["name"], None)

    def call_check(self, worker):
        path, is_other = self.choose_path()
        call = Call("check", "check", {"path": path}, self.on_checked)
        call.uses_other_mount = is_other
        return call

    def on_checked(self, worker, call, reply):
        model, snapshot, report = self.model, call.snapshot, reply["result"]
        if not report["good"] or report["repaired"]:
            raise Violation(f"damage: {report}")
        min_rows = model.commits[min(snapshot.commit, len(model.commits) - 1)].end - model.max_first_row
        max_rows = model.commits[-1].end - snapshot.first_row
        if not min_rows <= report["rows"] <= max_rows:
            raise Violation(f"{report['rows']} rows, expected {min_rows} to {max_rows}")


def expected_groups(ids: list[int]) -> list[dict]:
    groups: dict[int, list[int]] = {}
    for row_id in ids:
        groups.setdefault(row_id % GROUPS, []).append(row_id)
    return [{"q": q, "n": len(it), "s": sum(it), "first": it[0], "last": it[-1]} for q, it in groups.items()]
