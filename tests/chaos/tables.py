"""Rounds of one table."""

import os
from dataclasses import dataclass

from kinds import Kind, seconds
from oracle import Model, Since, Wrong
from round import CHANGES, Call, Round, difference


@dataclass
class Held:
    """A dataset of a worker."""

    first: int
    count: int
    positions: dict
    added: int
    order: int


@dataclass
class Following:
    next: int
    order: int


class TableRound(Round):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kind = Kind.roll(self.dice)
        self.model = Model(self.kind)
        self.options = self.roll_options()

    def about(self):
        return self.kind

    def since(self):
        return self.model.since()

    def exists(self):
        return self.model.exists

    def know_loss(self):
        self.model.lose()

    def mourn(self, hand, call):
        """Knows less behind the death of a process."""
        if call and call.label in ("drop", "commit, keep", "close"):
            self.model.quiet = True
        if hand.has_writer:
            self.forget_pending(hand)

    def forget_pending(self, hand):
        """What a writer had not committed is gone, but not what another one has by now."""
        if not any(it.has_writer for it in self.hands if it is not hand):
            self.model.pending = []

    def look_at_last(self):
        if not self.model.tried:
            return
        self.replace(self.hands[0])
        self.replace(self.hands[1])
        for hand, ops in (
            (self.hands[0], [self.op_open_writer, self.op_settle, self.op_close, self.op_check]),
            (self.hands[1], [self.op_settle]),
        ):
            for op in ops:
                call = op(hand)
                call.trap = None
                self.send(hand, call)
                self.wait_for([hand])

    def was_overtaken(self, hand, call, name):
        """Whether rows that a reader has in hand were dropped or sorted meanwhile."""
        model, arguments = self.model, call.arguments
        if call.label in ("read", "refresh", "open"):
            held = hand.datasets.get(arguments["name"])
            first = held.first if held and call.label != "open" else call.since.first
            order = held.order if held and call.label != "open" else call.since.order
            return (
                name == "NotFound" and first < model.first_most and (call.label != "open" or self.is_moving(call))
            ) or (name == "FileChanged" and order < len(model.orders) - 1)
        if call.label == "follow":
            following = hand.followers.get(arguments["name"])
            start = following.next if following else arguments["start"]
            order = following.order if following else call.since.order
            return (name in ("RowOutOfRange", "NotFound") and start < model.first_most) or (
                name == "FileChanged" and order < len(model.orders) - 1
            )
        if call.label == "aggregation":
            order = hand.aggregations.get(arguments["name"], call.since.order)
            return name == "FileChanged" and order < len(model.orders) - 1
        return False

    # ---- what is done ----

    def choose(self, hand):
        model = self.model
        if hand.has_writer:
            call = self.choose_write(hand)
        elif not any(it.has_writer for it in self.hands) and self.dice.random() < 0.5 or not model.tried:
            call = self.choose_change(hand)
        else:
            call = self.choose_read(hand)
        if call:
            call.may_lack_footers = self.may_drop
        weight = 0.8 if call and self.may_drop and call.label == "open_writer" else self.weight
        if call and self.can_trap and call.label != "abandon" and self.dice.random() < weight:
            self.set_trap(call)
        return call

    def choose_write(self, hand):
        if hand.is_poisoned and self.dice.random() < 0.7:
            return self.op_abandon(hand) if self.dice.random() < 0.5 else self.op_close(hand)
        # What a reader meets that sees part of it before and part behind.
        more = 5 if self.has_paused_reader() else 1
        ops = [
            (10, self.op_append),
            (10, self.op_commit),
            (2, self.op_sync),
            (1, self.op_rollback),
            (2, self.op_close),
            (2 * more, self.op_drop),
            (3 * more, self.op_compact),
            (2, self.op_open),
            (1, self.op_check),
        ]
        return self.roll(ops)(hand)

    def choose_change(self, hand):
        busy = {it.call.label for it in self.hands if it.call}
        if busy & {"sort", "alter"}:
            # What these do follows from what there is when they begin.
            return self.choose_read(hand) if self.model.exists else None
        ops = [(10, self.op_open_writer)]
        if self.model.exists and self.model.is_certain:
            more = 5 if self.has_paused_reader() else 1
            ops += [(3 * more, self.op_compact), (1, self.op_repair)]
            if not busy & CHANGES and not any(it.has_writer for it in self.hands):
                ops += [(4, self.op_alter)]
        return self.roll(ops)(hand)

    def choose_read(self, hand):
        ops = [(6, self.op_open), (1, self.op_check), (2, self.op_follow), (2, self.op_aggregation)]
        if hand.datasets:
            ops += [(6, self.op_refresh), (4, self.op_read), (1, self.op_forget)]
        if self.dice.random() < 0.02 and not any(it.call and it.call.label in ("sort", "alter") for it in self.hands):
            ops = [(1, self.op_open_writer)]
        return self.roll(ops)(hand)

    def roll_options(self):
        dice = self.dice
        options = {
            "segment_rows": dice.choice([1, 2, 3, 5, 8, 13, 40, 100]),
            "sync": dice.choice(["never", "never", "commit", 0.01, None]),
        }
        if self.kind.sorted_by and dice.random() < 0.3:
            options["keep"] = f"{dice.choice([2, 5, 20])} s"
        if dice.random() < 0.3:
            options["index"] = [name for name in ("id", "q", "g") if name in self.kind.columns and dice.random() < 0.5]
        return options

    # ---- operations of a writer ----

    def op_open_writer(self, hand):
        options = dict(self.options if self.dice.random() < 0.5 else self.roll_options())
        schema = None
        if not self.model.exists:
            schema = self.kind.schema()
            options |= {"dictionary": self.kind.dictionary or None, "index": self.kind.index or None}
            if self.kind.sorted_by:
                options |= {"sorted_by": "ts", "late": "accept" if self.kind.late else "refuse"}
        self.model.tried = True
        return Call(
            "open_writer",
            "open_writer",
            {"path": self.path, "schema": schema, "options": options},
            self.done_open_writer,
        )

    def done_open_writer(self, hand, call, reply):
        model, state = self.model, reply["writer"]
        for other in self.hands:
            if other is hand:
                continue
            # What it has answered before comes first; then it was killed, as nobody else opens the table before.
            if other.call and (other.has_writer or "kill" in other.call.faults):
                self.wait_for([other])
            if other.has_writer and other.call is None and not other.is_dead:
                self.wait_for_end(other)
            if other.call:
                other.call.is_overtaken = True
        hand.has_writer, hand.is_poisoned, hand.may_fail = True, False, self.is_full
        keep = call.arguments["options"].get("keep")
        hand.keeps = int(keep.split()[0]) if keep else None
        model.be_made()
        model.pending = []
        added = len(reply["result"]["columns"]) - len(self.kind.columns)
        before = model.end
        model.settle(model.find(Since(model.low, 0, 0), state["committed"], state["positions"], added))
        if state["rows"] != state["committed"]:
            raise Wrong(f"rows {state['rows']} of a new writer, {state['committed']} of them committed")
        if reply["result"]["dropped"] and not self.may_drop:
            raise Wrong(f"{reply['result']['dropped']} rows dropped, up to {before}")
        self.may_drop = False
        self.see_state(state)
        self.send_settle(hand)

    def send_settle(self, hand):
        """Looks which of what may be there is there."""
        self.send(hand, self.op_settle(hand))
        if not self.is_free:
            self.wait_for([hand])

    def op_settle(self, hand):
        return self.open_as(hand, "settled", ("columns",), other=False)

    def see_state(self, state):
        model = self.model
        if state["durable"] > state["committed"]:
            raise Wrong(f"{state['durable']} durable rows of {state['committed']}")
        model.rows_durable(state["durable"])

    def op_append(self, hand):
        count = self.dice.choice([1, 1, 2, 3, 5, 8, 21])
        ids = self.model.append(count)
        way = self.dice.choice(["columns", "rows", "row by row"])
        columns = self.model.columns(self.model.last.added)
        rows = [self.model.expected(row, columns) for row in ids]
        return Call("append", "append", {"rows": rows, "way": way}, self.done_append(ids), self.failed_append(ids))

    def done_append(self, ids):
        def done(hand, call, reply):
            self.model.pending += ids
            self.see_rows(reply)

        return done

    def failed_append(self, ids):
        def failed(hand, call, reply):
            state = reply["writer"]
            more = state["rows"] - state["committed"] - len(self.model.pending)
            if not 0 <= more <= len(ids) or more and call.arguments["way"] != "row by row":
                raise Wrong(f"{more} of {len(ids)} rows appended by a call that failed")
            self.model.pending += ids[:more]

        return failed

    def see_rows(self, reply):
        model, state = self.model, reply["writer"]
        if (state["rows"], state["committed"]) != (model.end + len(model.pending), model.end):
            raise Wrong(f"{state} beside {model.end} committed rows and {len(model.pending)} appended")
        if state["positions"] != model.last.positions:
            raise Wrong(f"positions {state['positions']}, expected {model.last.positions}")
        self.see_state(state)

    def op_commit(self, hand):
        positions = None
        if self.dice.random() < 0.5:
            self.names += 1
            positions = {self.dice.choice(["queue", "queue/1", "ü"]): self.names}
        durable = self.dice.random() < 0.3
        self.model.attempt(positions)
        label = "commit, keep" if hand.keeps else "commit durably" if durable else "commit"
        if hand.keeps:
            self.model.may_keep(hand.keeps)
        call = Call(label, "commit", {"durable": durable, "positions": positions}, self.done_commit, self.failed_commit)
        return call

    def done_commit(self, hand, call, reply):
        model = self.model
        model.settle(len(model.commits) - 1)
        model.pending = []
        if call.arguments["durable"]:
            model.be_durable(model.low)
        self.see_rows(reply)
        if hand.keeps and model.first < model.first_most:
            self.send_settle(hand)

    def failed_commit(self, hand, call, reply):
        model, state = self.model, reply["writer"]
        attempt = model.commits[-1]
        if (state["committed"], state["positions"]) == (attempt.end, attempt.positions):
            model.settle(len(model.commits) - 1)
            model.pending = []
        else:
            # What a commit of the same writer is to bring is not known; a look at the table says what is there.
            model.give_up()
            model.pending = model.pending[: state["rows"] - state["committed"]]
        self.see_rows(reply)

    def op_sync(self, hand):
        return Call("sync", "sync", {"wait": self.dice.random() < 0.5}, self.done_sync)

    def done_sync(self, hand, call, reply):
        self.model.be_durable(self.model.low)
        self.see_rows(reply)

    def op_rollback(self, hand):
        return Call("rollback", "rollback", {}, self.done_rollback)

    def done_rollback(self, hand, call, reply):
        self.model.pending = []
        self.see_rows(reply)

    def op_close(self, hand):
        # It commits.
        self.model.attempt(None)
        if hand.keeps:
            self.model.may_keep(hand.keeps)
        return Call("close", "close", {}, self.done_close(len(self.model.commits) - 1), self.failed_close)

    def done_close(self, index):
        def done(hand, call, reply):
            model = self.model
            hand.has_writer = False
            # If it was stopped where the lock was free already, another writer may have seen its commit, and gone on.
            if not call.is_overtaken:
                model.settle(index)
                model.pending = []
            model.be_durable(index)

        return done

    def failed_close(self, hand, call, reply):
        # Closed or not, the process lets go of it.
        hand.is_poisoned = True
        self.send(hand, self.op_abandon(hand))
        if not self.is_free:
            self.wait_for([hand])

    def op_abandon(self, hand):
        return Call("abandon", "abandon", {}, self.done_abandon)

    def done_abandon(self, hand, call, reply):
        hand.has_writer = False
        self.forget_pending(hand)

    def op_drop(self, hand):
        model = self.model
        row = self.dice.randrange(model.first, model.end + 1)
        call = Call("drop", "drop", {"row": row}, self.done_drop, self.failed_drop)
        call.first_was_certain = model.first == model.first_most
        model.first_most = max(model.first_most, row)
        return call

    def done_drop(self, hand, call, reply):
        model, removed = self.model, reply["result"]
        if call.first_was_certain:
            first = call.since.first + removed
            if first > call.arguments["row"] and removed:
                raise Wrong(f"rows up to {first} dropped, more than up to {call.arguments['row']}")
            model.first = model.first_most = model.first_durable = model.told = first
        if removed:
            model.quiet = False
        self.see_rows(reply)

    def failed_drop(self, hand, call, reply):
        self.model.quiet = True

    def op_compact(self, hand):
        alone = hand.has_writer or not any(it.has_writer or it.call and it.call.label in CHANGES for it in self.hands)
        sort = self.kind.late and alone and self.model.is_certain and self.dice.random() < 0.4
        rewrite = not sort and self.dice.random() < 0.3
        label = "sort" if sort else "rewrite" if rewrite else "compact"
        call = Call(
            label,
            "compact",
            {"path": self.path, "rewrite": rewrite, "sort": sort},
            self.done_compact,
            self.failed_compact,
        )
        if sort:
            stop = self.model.end
            if hand.has_writer:
                stop = max(
                    int(name[:20]) for name in os.listdir(self.path) if name.endswith(".arrow") and name[:20].isdigit()
                )
            self.model.orders.append(self.model.sorted_order(stop))
        return call

    def done_compact(self, hand, call, reply):
        if call.label == "sort":
            self.model.order = self.model.order_durable = len(self.model.orders) - 1
        if hand.has_writer:
            self.see_rows(reply)

    def failed_compact(self, hand, call, reply):
        pass

    def op_alter(self, hand):
        model = self.model
        if self.dice.random() < 0.7 and model.last.added < 4:
            model.attempt(None, added=model.last.added + 1)
            return Call(
                "alter",
                "alter",
                {"path": self.path, "change": {"add": f"new{model.last.added}: int64"}},
                self.done_alter,
                self.failed_alter,
            )
        kind = self.dice.choice(["int32", "int64"])
        return Call(
            "alter", "alter", {"path": self.path, "change": {"widen": {"q": kind}}}, self.done_widen, self.failed_widen
        )

    def done_alter(self, hand, call, reply):
        self.model.settle(len(self.model.commits) - 1)
        self.model.be_made()

    def failed_alter(self, hand, call, reply):
        if reply["error"][0] == "Busy":
            self.model.give_up()

    def done_widen(self, hand, call, reply):
        pass

    def failed_widen(self, hand, call, reply):
        pass

    def op_repair(self, hand):
        return Call("repair", "repair", {"path": self.path}, self.done_check)

    # ---- operations of a reader ----

    def table(self):
        """A path to the table, one of two."""
        if self.place.can_remount and self.dice.random() < 0.3:
            return self.place.other(self.name), True
        return self.path, False

    def roll_look(self):
        dice, end = self.dice, self.model.end
        low = dice.randrange(self.model.fresh + 1)
        options = [
            ("columns",),
            ("columns",),
            ("rows", [dice.randrange(1000) for _ in range(5)]),
            ("iter",),
            ("slice", dice.randrange(end + 1), dice.randrange(end + 3)),
            ("take", [dice.randrange(1000) for _ in range(5)]),
            ("filter", low, low + dice.randrange(20)),
            ("sums",),
            ("groups",),
            ("messages",),
            ("validate",),
            ("nothing",),
            ("nothing",),
        ]
        if self.kind.sorted_by:
            options += [("between", low // 3, low // 3 + dice.randrange(30))]
        return dice.choice(options)

    def op_open(self, hand):
        path, other = self.table()
        self.names += 1
        return self.open_as(hand, f"held {self.names % 3}", self.roll_look(), other, path)

    def open_as(self, hand, name, look, other, path=None):
        arguments = {"path": path or self.path, "name": name, "look": look}
        call = Call("open", "open", arguments, self.done_open)
        call.other = other
        return call

    def done_open(self, hand, call, reply):
        seen, model, since = reply["result"], self.model, call.since
        added = self.added(seen["columns"])
        model.find_first(since.first, seen["first"])
        index = model.find(since, seen["first"] + seen["count"], seen["positions"], added)
        if index > model.low:
            # What somebody sees is committed.
            model.low = index
        order = self.see(since.order, seen)
        hand.datasets[call.arguments["name"]] = Held(
            seen["first"], seen["count"], seen["positions"], added, since.order
        )
        model.exists = True
        self.narrow(call, seen, order)

    def narrow(self, call, seen, order):
        """What a new look says of the table if nobody changes it meanwhile."""
        model = self.model
        model.first = max(model.first, seen["first"])
        if self.changes != call.changes_then or any(it.call and it.call.label in CHANGES for it in self.hands):
            return
        model.first_most = seen["first"]
        if not model.quiet:
            model.told = model.first
        if seen["how"] in ("columns", "iter"):
            model.order = order
            del model.orders[order + 1 :]

    def added(self, columns):
        base = list(self.kind.columns)
        added = len(columns) - len(base)
        if columns != self.model.columns(added):
            raise Wrong(f"columns {columns}")
        return added

    def op_refresh(self, hand):
        name = self.dice.choice(sorted(hand.datasets))
        return Call("refresh", "refresh", {"name": name, "look": self.roll_look()}, self.done_refresh)

    def done_refresh(self, hand, call, reply):
        seen, model, since = reply["result"], self.model, call.since
        held = hand.datasets[call.arguments["name"]]
        added = self.added(seen["columns"])
        # Who has it open is told behind the removal.
        model.find_first(since.told, seen["first"])
        index = model.find(since, seen["first"] + seen["count"], seen["positions"], added)
        model.low = max(model.low, index)
        order = min(held.order, since.order)
        self.see(order, seen)
        hand.datasets[call.arguments["name"]] = Held(seen["first"], seen["count"], seen["positions"], added, order)

    def op_read(self, hand):
        name = self.dice.choice(sorted(hand.datasets))
        return Call("read", "look", {"name": name, "look": self.roll_look()}, self.done_read)

    def done_read(self, hand, call, reply):
        seen, held = reply["result"], hand.datasets[call.arguments["name"]]
        got = (seen["first"], seen["count"], seen["positions"], self.added(seen["columns"]))
        want = (held.first, held.count, held.positions, held.added)
        if got != want:
            raise Wrong(f"a dataset has changed from {want} to {got}")
        self.see(held.order, seen)

    def see(self, order, seen):
        """Compares what a reader saw with the orders of rows from this one on; the first that fits."""
        said = None
        for number in range(order, len(self.model.orders)):
            said = self.complaint(self.model.orders[number], seen)
            if said is None:
                return number
        raise Wrong(
            f"{seen['how']} {seen['arguments']} of rows {seen['first']} to {seen['first'] + seen['count']}: {said}"
        )

    def complaint(self, order, seen):
        model, first, columns, how, got = self.model, seen["first"], seen["columns"], seen["how"], seen["seen"]
        ids = order[first : first + seen["count"]]
        if len(ids) < seen["count"]:
            return f"{seen['count']} rows, expected {len(ids)}"

        def rows(chosen):
            return [model.expected(row, columns) for row in chosen]

        arguments = seen["arguments"]
        match how:
            case "columns":
                got = [dict(zip(got, row)) for row in zip(*got.values())]
                want = rows(ids)
            case "iter":
                want = rows(ids)
            case "rows":
                want = [
                    (i, row, tuple(row.values()))
                    for i, row in ((it[0], model.expected(ids[it[0]], columns)) for it in got)
                ]
            case "slice":
                want = rows(ids[arguments[0] : arguments[1]])
            case "take":
                want = rows(ids[i % len(ids)] for i in arguments[0]) if ids else []
            case "filter":
                want = rows(row for row in ids if arguments[0] <= row < arguments[1])
            case "between":
                low, high = arguments
                want = rows(row for row in ids if low <= seconds(row, self.kind.late) <= high)
            case "sums":
                want = (sum(ids), min(ids), max(ids), len(ids)) if ids else got
            case "groups":
                want = groups(ids)
            case _:
                return None
        return None if got == want else difference(got, want)

    def op_follow(self, hand):
        name = "follower" if self.dice.random() < 0.8 else "second"
        model = self.model
        start = min(self.dice.randrange(model.first_most, max(model.end, model.first_most) + 1), model.end)
        path, other = self.table()
        call = Call(
            "follow", "follow", {"path": path, "name": name, "start": start}, self.done_follow, self.failed_follow
        )
        call.other = other
        return call

    def done_follow(self, hand, call, reply):
        model, name, seen = self.model, call.arguments["name"], reply["result"]
        following = hand.followers.setdefault(name, Following(call.arguments["start"], call.since.order))
        for first, columns, rows in seen["parts"]:
            if first != following.next:
                raise Wrong(f"rows from {first} on, expected from {following.next} on")
            self.added(columns)
            model.match(Since(0, 0, following.order), list(enumerate(rows, first)), columns)
            following.next += len(rows)
        if seen["next"] != following.next:
            raise Wrong(f"goes on with row {seen['next']}, after rows up to {following.next}")
        least = model.commits[min(call.since.low, len(model.commits) - 1)].end
        if following.next < least:
            raise Wrong(f"a follower ended at row {following.next}, before {least}")

    def failed_follow(self, hand, call, reply):
        hand.followers.pop(call.arguments["name"], None)
        if not reply["struck"]:
            self.send(hand, self.op_forget(hand, call.arguments["name"]))

    def op_aggregation(self, hand):
        call = Call(
            "aggregation",
            "aggregation",
            {"path": self.path, "name": "sums"},
            self.done_aggregation,
            self.failed_aggregation,
        )
        return call

    def done_aggregation(self, hand, call, reply):
        model, since, seen = self.model, call.since, reply["result"]
        order = hand.aggregations.setdefault(call.arguments["name"], since.order)
        wanted = []
        firsts = range(since.told, model.first_most + 1)
        for number in range(order, len(model.orders)):
            for it in model.commits[since.low :]:
                for first in firsts:
                    ids = model.orders[number][first : it.end]
                    want = {"n": len(ids), "s": sum(ids), "a": ids[0] if ids else None, "z": ids[-1] if ids else None}
                    if seen == [want]:
                        return
                    wanted.append(want)
        raise Wrong(f"{seen}, expected one of {wanted[:20]}")

    def failed_aggregation(self, hand, call, reply):
        if not reply["struck"]:
            hand.aggregations.pop(call.arguments["name"], None)
            self.send(hand, self.op_forget(hand, call.arguments["name"]))

    def op_forget(self, hand, name=None):
        name = name or self.dice.choice(sorted(hand.datasets))
        return Call("forget", "forget", {"name": name}, self.done_forget)

    def done_forget(self, hand, call, reply):
        for held in (hand.datasets, hand.followers, hand.aggregations):
            held.pop(call.arguments["name"], None)

    def op_check(self, hand):
        path, other = self.table()
        call = Call("check", "check", {"path": path}, self.done_check)
        call.other = other
        return call

    def done_check(self, hand, call, reply):
        model, since, seen = self.model, call.since, reply["result"]
        if not seen["good"] or seen["repaired"]:
            raise Wrong(f"damage: {seen}")
        least = model.commits[min(since.low, len(model.commits) - 1)].end - model.first_most
        most = model.commits[-1].end - since.first
        if not least <= seen["rows"] <= most:
            raise Wrong(f"{seen['rows']} rows, expected {least} to {most}")


def groups(ids):
    found = {}
    for row in ids:
        found.setdefault(row % 1000, []).append(row)
    return [{"q": q, "n": len(it), "s": sum(it), "first": it[0], "last": it[-1]} for q, it in found.items()]
