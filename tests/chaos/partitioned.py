"""Rounds of a table with partitions, each with a model of its own."""

import os
from urllib.parse import unquote

from kinds import PARTITIONS, Kind, seconds
from oracle import Model, Since, Wrong
from round import CHANGES, Call, Round, difference

CHANGES |= {"p: append", "p: commit", "p: settle", "p: compact", "p: alter", "p: drop rows", "p: drop", "p: rollback"}
CHANGES |= {"p: sync", "p: close", "p: open_writer"}


class PartitionedRound(Round):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kind = Kind.roll(self.dice)
        self.models = {key: Model(self.kind) for key in PARTITIONS}
        # The columns that were added, and those that a call was to add that did not end.
        self.added = 0
        self.fresh = 0
        self.tried = False
        # The partition that a call is to remove, until it has ended; behind one that was killed, until a look tells.
        self.leaving = None
        self.is_open = False

    def about(self):
        return f"partitions of {self.kind}"

    def since(self):
        return {key: (model.since(), model.exists and key != self.leaving) for key, model in self.models.items()}

    def exists(self):
        return any(model.exists and key != self.leaving for key, model in self.models.items())

    def know_loss(self):
        for model in self.models.values():
            model.lose()

    def mourn(self, hand, call):
        if hand.has_writer and not any(it.has_writer for it in self.hands if it is not hand):
            self.give_up_pending()

    def give_up_pending(self):
        for model in self.models.values():
            model.pending = []

    def was_overtaken(self, hand, call, name):
        if name == "NotFound" and call.label == "p: alter" and not all(it.exists for it in self.models.values()):
            # A partition that was to be made, and is a directory without a table.
            return True
        moved = any(
            since.first < self.models[key].first_most or since.order < len(self.models[key].orders) - 1
            for key, (since, _) in self.known_since(hand, call).items()
        )
        return name in ("NotFound", "FileChanged", "RowOutOfRange") and moved

    def known_since(self, hand, call):
        held = {**hand.datasets, **hand.followers}.get(call.arguments.get("name"))
        return held["since"] if held else call.since

    def schema(self):
        return self.kind.schema() + ", key: utf8 not null" + "".join(f", new{i}: int64" for i in range(self.added))

    def look_at_last(self):
        if not self.tried:
            return
        self.replace(self.hands[0])
        self.replace(self.hands[1])
        for number, op in ((0, self.op_settle), (0, self.op_check), (1, self.op_settled_open)):
            call = op(self.hands[number])
            if call:
                self.send(self.hands[number], call)
                self.wait_for([self.hands[number]])

    # ---- what is done ----

    def choose(self, hand):
        changing = any(it.call and it.call.label in CHANGES for it in self.hands)
        if hand.has_writer:
            call = self.choose_write(hand)
        elif not self.is_certain() and not changing and not any(it.has_writer for it in self.hands):
            call = self.op_settle(hand)
        elif (
            not any(it.has_writer for it in self.hands) and not changing and self.dice.random() < 0.5 or not self.tried
        ):
            call = self.choose_change(hand)
        else:
            call = self.choose_read(hand)
        if call and self.can_trap and call.label not in ("abandon", "p: drop") and self.dice.random() < self.weight:
            self.set_trap(call)
        return call

    def is_certain(self):
        return self.leaving is None and all(model.is_certain for model in self.models.values())

    def choose_write(self, hand):
        if hand.is_poisoned:
            return self.op_abandon(hand)
        ops = [
            (10, self.op_append),
            (10, self.op_commit),
            (2, self.op_sync),
            (1, self.op_rollback),
            (3, self.op_close),
            (2, self.op_open),
        ]
        return self.roll(ops)(hand)

    def choose_change(self, hand):
        ops = [(10, self.op_open_writer)]
        if self.exists() and self.is_certain():
            ops += [(6, self.op_compact), (6, self.op_alter), (6, self.op_drop_rows), (6, self.op_drop_partition)]
        return self.roll(ops)(hand)

    def choose_read(self, hand):
        ops = [(6, self.op_open), (1, self.op_check), (3, self.op_follow)]
        if hand.datasets:
            ops += [(6, self.op_refresh)]
        return self.roll(ops)(hand)

    def changing(self, label, command, arguments, finish, fail=None):
        return Call(label, command, {"path": self.path, **arguments}, finish, fail or self.failed)

    def failed(self, hand, call, reply):
        """What was done is not known: a look tells."""
        if hand.has_writer:
            hand.is_poisoned = True

    # ---- operations of a writer ----

    def op_open_writer(self, hand):
        options = {"segment_rows": self.dice.choice([1, 2, 3, 5, 8, 40])}
        options["sync"] = self.dice.choice(["never", "never", "commit", 0.01, None])
        options["dictionary"] = self.kind.dictionary or None
        if not self.tried and self.kind.sorted_by or self.kind.sorted_by:
            options |= {"sorted_by": "ts", "late": "accept" if self.kind.late else "refuse"}
        self.tried = True
        arguments = {"schema": self.schema(), "options": options}
        return self.changing("p: open_writer", "open_partitioned", arguments, self.done_open_writer)

    def done_open_writer(self, hand, call, reply):
        hand.has_writer, hand.is_poisoned, hand.may_fail = True, False, self.is_full
        self.give_up_pending()

    def op_append(self, hand):
        count = self.dice.choice([1, 2, 3, 5, 8])
        ids = list(range(self.fresh, self.fresh + count))
        self.fresh += count
        rows = []
        for row in ids:
            model = self.models[PARTITIONS[row % len(PARTITIONS)]]
            model.born[row] = self.added
            rows.append(self.expected(row, [*self.kind.columns, "key", *(f"new{i}" for i in range(self.added))]))
        way = self.dice.choice(["columns", "rows", "row by row"])
        return Call("p: append", "append", {"rows": rows, "way": way}, self.done_append(ids), self.failed)

    def done_append(self, ids):
        def done(hand, call, reply):
            for row in ids:
                model = self.models[PARTITIONS[row % len(PARTITIONS)]]
                model.pending.append(row)
                model.be_made()

        return done

    def expected(self, row, columns):
        model = self.models[PARTITIONS[row % len(PARTITIONS)]]
        return model.expected(row, columns)

    def op_commit(self, hand):
        durable = self.dice.random() < 0.3
        self.attempt()
        return Call("p: commit", "commit_partitioned", {"durable": durable}, self.done_commit, self.failed)

    def attempt(self):
        for model in self.models.values():
            if model.pending:
                model.tried = True
                model.attempt(None)

    def done_commit(self, hand, call, reply):
        for model in self.models.values():
            if model.pending:
                model.settle(len(model.commits) - 1)
                model.be_made()
                model.pending = []
        if call.arguments.get("durable"):
            self.be_durable()

    def be_durable(self):
        """All that was committed is on the disk, whoever did it."""
        for model in self.models.values():
            model.be_durable(model.low)

    def op_sync(self, hand):
        return Call("p: sync", "sync", {"wait": False}, self.done_sync, self.failed)

    def done_sync(self, hand, call, reply):
        self.be_durable()

    def op_rollback(self, hand):
        return Call("p: rollback", "rollback", {}, self.done_rollback, self.failed)

    def done_rollback(self, hand, call, reply):
        self.give_up_pending()

    def op_close(self, hand):
        self.attempt()
        return Call("p: close", "close", {}, self.done_close, self.failed)

    def done_close(self, hand, call, reply):
        self.done_commit(hand, call, reply)
        self.be_durable()
        hand.has_writer = False

    def op_abandon(self, hand):
        return Call("abandon", "abandon", {}, self.done_abandon)

    def done_abandon(self, hand, call, reply):
        hand.has_writer = False
        self.give_up_pending()

    def op_settle(self, hand):
        keys = [key for key, model in self.models.items() if model.tried or model.exists]
        if not keys:
            return None
        arguments = {"schema": self.schema(), "keys": keys}
        return self.changing("p: settle", "settle_partitions", arguments, self.done_settle)

    def done_settle(self, hand, call, reply):
        for key, committed in reply["result"].items():
            if key == self.leaving and committed == 0:
                # It was removed by a process that was killed, and made again by this one.
                self.models[key] = Model(self.kind)
            model = self.models[key]
            model.settle(model.find(Since(model.low, 0, 0), committed, {}))
            model.be_durable(model.low)
            model.be_made()
        self.leaving = None
        self.send(hand, self.op_settled_open(hand))
        if not self.is_free:
            self.wait_for([hand])

    def op_settled_open(self, hand):
        arguments = {"path": self.path, "name": "settled", "look": ("parts",)}
        return Call("p: open", "open_partitions", arguments, self.done_open)

    def op_compact(self, hand):
        places = {unquote(name.partition("=")[2]): name for name in os.listdir(self.path) if name.startswith("key=")}
        there = [key for key in places if self.models[key].exists]
        if not there:
            return None
        key = self.dice.choice(sorted(there))
        model = self.models[key]
        sort = self.kind.late and self.dice.random() < 0.3
        if sort:
            model.orders.append(model.sorted_order(model.end))
        arguments = {
            "path": f"{self.path}/{places[key]}",
            "sort": sort,
            "rewrite": self.dice.random() < 0.3 and not sort,
        }
        return Call("p: compact", "compact", arguments, self.done_compact(model, sort), self.failed)

    def done_compact(self, model, sort):
        def done(hand, call, reply):
            if sort:
                model.order = model.order_durable = len(model.orders) - 1

        return done

    def op_alter(self, hand):
        if self.added == 3:
            return None
        # From now on any partition may have it.
        self.added += 1
        change = {"add": f"new{self.added - 1}: int64"}
        return self.changing("p: alter", "alter", {"change": change}, self.done_nothing)

    def done_nothing(self, hand, call, reply):
        pass

    def op_drop_rows(self, hand):
        key = self.dice.choice([key for key, model in self.models.items() if model.exists])
        model = self.models[key]
        row = self.dice.randrange(model.first, model.end + 1)
        first = model.first
        model.first_most = max(model.first_most, row)

        def done(hand, call, reply):
            model.first = model.first_most = model.first_durable = first + reply["result"]
            if model.first > max(row, first):
                raise Wrong(f"rows up to {model.first} dropped, more than up to {row}")

        return self.changing("p: drop rows", "drop_rows_of_partition", {"key": key, "row": row}, done)

    def op_drop_partition(self, hand):
        if any(it.call for it in self.hands) or self.is_full or self.is_read_only:
            return None
        key = self.dice.choice([key for key, model in self.models.items() if model.exists])
        # Who has read of it would find other rows under the numbers of these.
        for other in self.hands:
            if other is not hand:
                self.end_process(other)
        hand.datasets.clear()
        hand.followers.clear()

        def done(hand, call, reply):
            if not reply["result"]:
                raise Wrong(f"partition {key} was not there")
            self.models[key] = Model(self.kind)
            self.leaving = None
            self.forget(hand)

        self.leaving = key
        return self.changing("p: drop", "drop_partition", {"key": key}, done)

    def forget(self, hand):
        """The process forgets what it has read."""
        self.end_process(hand)

    # ---- operations of a reader ----

    def table(self):
        if self.place.can_remount and self.dice.random() < 0.3:
            return self.place.other(self.name), True
        return self.path, False

    def roll_look(self):
        options = [("parts",), ("parts",), ("all",), ("filter", self.dice.choice(PARTITIONS)), ("sums",)]
        if self.kind.sorted_by:
            low = self.dice.randrange(self.fresh // 3 + 1)
            options.append(("between", low, low + self.dice.randrange(10)))
        return self.dice.choice(options)

    def op_open(self, hand):
        path, other = self.table()
        arguments = {"path": path, "name": self.dice.choice("abc"), "look": self.roll_look()}
        call = Call("p: open", "open_partitions", arguments, self.done_open)
        call.other = other
        return call

    def op_refresh(self, hand):
        name = self.dice.choice(sorted(hand.datasets))
        arguments = {"name": name, "look": self.roll_look()}
        return Call("p: refresh", "refresh_partitions", arguments, self.done_open)

    def done_open(self, hand, call, reply):
        seen = reply["result"]
        held = hand.datasets.get(call.arguments["name"]) if call.label == "p: refresh" else None
        for key, (since, existed) in call.since.items():
            if key not in seen["shapes"]:
                if existed:
                    raise Wrong(f"there is no partition {key}")
                continue
            self.see_shape(key, since, seen["shapes"][key], held)
        if unknown := set(seen["shapes"]) - set(call.since):
            raise Wrong(f"partitions {unknown}")
        orders = {key: since.order for key, (since, _) in call.since.items()}
        if held:
            orders = {key: min(order, held["since"][key][0].order) for key, order in orders.items()}
        self.see(seen, orders)
        hand.datasets[call.arguments["name"]] = {"since": call.since}
        moving = self.changes != call.changes_then or any(it.call and it.call.label in CHANGES for it in self.hands)
        if not moving and seen["how"] == "parts" and call.label == "p: open":
            for key, (first, _) in seen["shapes"].items():
                model = self.models[key]
                model.first = model.first_most = first
                del model.orders[model.order + 1 :]

    def see_shape(self, key, since, shape, held):
        model, (first, count) = self.models[key], shape
        least = min(since.first, held["since"][key][0].first) if held else since.first
        try:
            model.find_first(least, first)
            index = model.find(since, first + count, {})
        except Wrong as e:
            raise Wrong(f"partition {key}: {e}") from None
        model.low = max(model.low, index)
        model.exists = True

    def see(self, seen, orders):
        """Compares rows with those of an order of each partition."""
        how, got, columns = seen["how"], seen["seen"], seen["columns"]
        parts = {}
        for key, (first, count) in seen["shapes"].items():
            model = self.models[key]
            parts[key] = [order[first : first + count] for order in model.orders[orders[key] :]]
        if how == "parts":
            for key, rows in got.items():
                self.see_rows(key, rows, parts[key], columns)
            return
        if how == "sums":
            ids = [row for choices in parts.values() for row in choices[0]]
            if got != (sum(ids), len(ids)):
                raise Wrong(f"sum and count {got}, expected {(sum(ids), len(ids))}")
            return
        by_key = {}
        for row in got:
            by_key.setdefault(row["key"], []).append(row)
        for key in by_key:
            if key not in parts:
                raise Wrong(f"rows of a partition {key}")
        for key, choices in parts.items():
            if how == "filter" and key != seen["arguments"][0]:
                choices = [[]]
            elif how == "between":
                low, high = seen["arguments"]
                choices = [[row for row in ids if low <= seconds(row, self.kind.late) <= high] for ids in choices]
            self.see_rows(key, by_key.get(key, []), choices, columns)

    def see_rows(self, key, rows, choices, columns):
        for ids in choices:
            want = [self.expected(row, columns) for row in ids]
            if rows == want:
                return
        raise Wrong(f"partition {key}: {difference(rows, want)}")

    def op_follow(self, hand):
        path, other = self.table()
        name = self.dice.choice(["one", "two"])
        arguments = {"path": path, "name": name, "start": 0, "timeout": self.dice.choice([0, 0, 0.02])}
        call = Call("p: follow", "follow", arguments, self.done_follow, self.failed_follow)
        call.other = other
        return call

    def done_follow(self, hand, call, reply):
        name = call.arguments["name"]
        following = hand.followers.setdefault(name, {"since": call.since, "next": {}})
        for first, columns, rows in reply["result"]["parts"]:
            key = rows[0]["key"]
            if key not in following["next"]:
                # It begins with the first row that is there.
                self.models[key].find_first(following["since"][key][0].first, first)
                following["next"][key] = first
            if first != following["next"][key]:
                raise Wrong(f"partition {key}: rows from {first} on, expected from {following['next'][key]} on")
            orders = self.models[key].orders[following["since"][key][0].order :]
            self.see_rows(key, rows, [order[first : first + len(rows)] for order in orders], columns)
            following["next"][key] += len(rows)
        for key, (since, existed) in call.since.items():
            if not existed:
                continue
            least = self.models[key].commits[since.low].end
            end = following["next"].get(key, 0)
            if end < least and (end or least > self.models[key].first_most):
                raise Wrong(f"partition {key}: a follower ended at row {end}, before {least}")

    def failed_follow(self, hand, call, reply):
        hand.followers.pop(call.arguments["name"], None)

    def op_check(self, hand):
        path, other = self.table()
        call = Call("p: check", "check", {"path": path}, self.done_check)
        call.other = other
        return call

    def done_check(self, hand, call, reply):
        seen = reply["result"]
        if not seen["good"]:
            raise Wrong(f"damage: {seen}")
        least = sum(
            self.models[key].commits[since.low].end - self.models[key].first_most
            for key, (since, existed) in call.since.items()
            if existed
        )
        most = sum(self.models[key].commits[-1].end - since.first for key, (since, _) in call.since.items())
        if not least <= seen["rows"] <= most:
            raise Wrong(f"{seen['rows']} rows, expected {least} to {most}")
