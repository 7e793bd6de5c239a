"""A round: a table, processes that write and read it, and what goes wrong meanwhile."""

import errno
import os
import random
import signal
import time
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path

import worker
from oracle import Since, Wrong

PATIENCE = float(os.environ.get("ARROWWOOD_PATIENCE", "120"))
# How much of an answer is shown.
SHOWN = int(os.environ.get("ARROWWOOD_CHAOS_SHOWN", "100"))
# Who changes a table, and not just rows of it.
CHANGES = {
    "open_writer",
    "append",
    "commit",
    "commit durably",
    "commit, keep",
    "sync",
    "rollback",
    "close",
    "abandon",
    "drop",
    "compact",
    "rewrite",
    "sort",
    "alter",
    "repair",
}
# What errors of the system look like: never absence, damage or an end.
SYSTEM = {"IoError", "PermissionDenied", "MemoryError"}
NEVER = {"InternalError", "PanicException", "InvalidData"}
ERRORS = {
    "read": [errno.EIO, errno.ENOMEM],
    "write": [errno.EIO, errno.ENOSPC, errno.EDQUOT],
    "sync": [errno.EIO, errno.ENOSPC],
    "open": [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM],
    "name": [errno.EIO, errno.ENOSPC, errno.EROFS],
    "map": [errno.ENOMEM],
    "space": [errno.ENOSPC, errno.EIO, errno.EDQUOT],
}
# For how many calls a loss is said to be recent.
RECENT = 12


@dataclass
class Call:
    """A command to a worker: the name of the operation, and what to do with the answer."""

    label: str
    command: str
    arguments: dict
    finish: object
    fail: object = None
    since: Since = None
    trap: tuple = None
    faults: set = field(default_factory=set)
    changes_then: int = 0
    trap_label: str = None
    # Whether the table was there for certain when it began.
    existed: bool = False
    again: bool = False
    # Whether another writer has opened the table since it began.
    is_overtaken: bool = False
    is_unsent: bool = False
    other: bool = False
    first_was_certain: bool = False
    # Whether what other Arrow readers see may be lost, as no writer has opened the table since.
    may_lack_footers: bool = False


class Hand:
    """A worker as seen from here."""

    def __init__(self, number):
        self.number = number
        # The process is started for its first call.
        self.connection = self.pid = None
        self.call = None
        self.is_stopped = False
        self.is_dead = False
        self.has_writer = False
        # Whether the writer had an error, and whether it may have one behind which it refuses everything.
        self.is_poisoned = False
        self.may_fail = False
        # The seconds of rows that the writer keeps; None keeps all.
        self.keeps = None
        self.datasets, self.followers, self.aggregations = {}, {}, {}

    def start(self, others):
        self.connection, end = Pipe()
        self.pid = worker.start(end, [it.connection for it in others if it.connection] + [self.connection])
        end.close()

    def end(self):
        """Ends the process for good."""
        self.is_dead = True
        if self.connection:
            self.connection.close()

    @property
    def is_idle(self):
        return not self.is_dead and not self.is_stopped and self.call is None


class Round:
    """What all rounds share; what is done to which table, and what is known of it, is that of the kinds of rounds."""

    def __init__(self, seed, place, counts, can_trap):
        self.seed, self.place, self.counts, self.can_trap = seed, place, counts, can_trap
        self.dice = random.Random(seed)
        # Whether processes run all at once, or one at a time, but for those that are stopped in the middle of a call.
        self.is_free = self.dice.random() < 0.25
        self.name = f"table-{seed}"
        self.path = place.path(self.name)
        self.hands = []
        self.log = []
        self.changes = 0
        self.names = 0
        self.is_full = self.is_read_only = False
        self.lost = None
        # Whether the next writer may find fewer rows than there were.
        self.may_drop = False
        self.calls = 0
        self.weight = self.dice.choice([0.0, 0.1, 0.3, 0.5])

    # ---- the course of it ----

    def play(self):
        self.note(f"{'all at once' if self.is_free else 'one at a time'}, {self.about()}")
        try:
            for number in range(4):
                self.hands.append(Hand(number))
            for _ in range(self.dice.randrange(20, 70)):
                self.step()
            self.end()
        except Wrong as e:
            raise Wrong(f"seed {self.seed}: {e}\n" + "\n".join(self.log[-60:])) from None
        finally:
            for hand in self.hands:
                self.kill(hand)
            if self.is_read_only:
                self.place.read_only(False)
            if self.is_full:
                self.place.free()

    def note(self, text):
        self.log.append(text)
        if os.environ.get("ARROWWOOD_CHAOS_TRACE"):
            print(f"    {text}", flush=True)

    def step(self):
        if self.dice.random() < 0.06:
            self.event()
        idle = [hand for hand in self.hands if hand.is_idle]
        if self.is_free and (not idle or self.dice.random() < 0.3):
            self.disturb()
            self.wait_for(self.hands, any_of=True)
            idle = [hand for hand in self.hands if hand.is_idle]
        stopped = [hand for hand in self.hands if hand.is_stopped]
        if stopped and (not idle or self.dice.random() < 0.25):
            self.resume(self.dice.choice(stopped))
            return
        if not idle:
            return
        hand = self.dice.choice(idle)
        call = self.choose(hand)
        if call is None:
            return
        self.send(hand, call)
        if not self.is_free:
            self.wait_for([hand])

    def disturb(self):
        """Kills, stops or lets go on somebody who is busy."""
        busy = [hand for hand in self.hands if hand.call and not hand.is_stopped]
        if not busy or self.dice.random() < 0.7:
            return
        hand = self.dice.choice(busy)
        if self.dice.random() < 0.5:
            hand.call.faults.add("kill")
            os.kill(hand.pid, signal.SIGKILL)
            self.note(f"{hand.number}: killed in {hand.call.label}")
        else:
            hand.call.faults.add("stop")
            os.kill(hand.pid, signal.SIGSTOP)
            hand.is_stopped = True
            self.note(f"{hand.number}: stopped in {hand.call.label}")

    def end(self):
        """All calls end, and the table is what it has to be, for a process that sees it the first time."""
        self.settle_down()
        for hand in self.hands:
            self.kill(hand)
        self.make_writable()
        self.look_at_last()

    def make_writable(self):
        if self.is_full:
            self.place.free()
            self.is_full = False
        if self.is_read_only:
            self.place.read_only(False)
            self.is_read_only = False

    def settle_down(self):
        while any(hand.call for hand in self.hands):
            for hand in self.hands:
                if hand.is_stopped:
                    self.resume(hand)
            self.wait_for([hand for hand in self.hands if hand.call])

    # ---- processes ----

    def send(self, hand, call):
        if call.label in CHANGES:
            self.changes += 1
        self.calls += 1
        call.existed = self.exists()
        call.since, call.changes_then = self.since(), self.changes
        if self.is_full:
            call.faults.add("full disk")
        if self.is_read_only:
            call.faults.add("read-only")
        if self.lost and self.calls < self.lost[1]:
            call.faults.add(self.lost[0])
        if call.other:
            call.faults.add("other mount")
        hand.call = call
        self.note(f"{hand.number}: {call.label} {short(call)}" + (f" {trap_text(call.trap)}" if call.trap else ""))
        if hand.pid is None:
            hand.start([it for it in self.hands if not it.is_dead])
        try:
            hand.connection.send((call.command, call.arguments, call.trap))
        except (BrokenPipeError, ConnectionResetError):
            # It was killed behind its last answer; whoever waits for this one notices.
            call.is_unsent = True

    def wait_for(self, hands, any_of=False):
        """Until the calls of these, or one of them, are answered, or their processes stopped or dead."""
        deadline = time.monotonic() + PATIENCE
        while waiting := [hand for hand in hands if hand.call and not hand.is_stopped]:
            ready = wait([hand.connection for hand in waiting], timeout=0.002 if self.can_trap else 1)
            for hand in waiting:
                if not hand.call or hand.is_stopped:
                    # Its answer was waited for by what came of another one.
                    continue
                if hand.connection in ready:
                    self.receive(hand)
                else:
                    self.look_after(hand)
            if any_of and any(not hand.call or hand.is_stopped for hand in waiting):
                return
            if time.monotonic() > deadline:
                raise Wrong(
                    "\n".join(f"{hand.number} hangs in {hand.call.label}: {stacks(hand.pid)}" for hand in waiting)
                )

    def look_after(self, hand):
        """Notices that a process was stopped or is dead."""
        pid, status = os.waitpid(hand.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            if not hand.is_stopped and hand.call:
                hand.is_stopped = True
                hand.call.faults.add("stop")
                self.note(f"{hand.number}: stopped in {hand.call.label}")
            return
        self.bury(hand, status)

    def wait_for_end(self, hand):
        """Waits until a process is dead that was killed."""
        end = time.monotonic() + PATIENCE
        while not hand.is_dead:
            if time.monotonic() > end:
                raise Wrong(f"{hand.number} has a writer, and another process has one")
            self.look_after(hand)
            time.sleep(0.001)

    def receive(self, hand):
        try:
            reply = hand.connection.recv()
        except (EOFError, ConnectionResetError):
            _, status = os.waitpid(hand.pid, 0)
            self.bury(hand, status)
            return
        call, hand.call = hand.call, None
        # It was answered before.
        call.faults.discard("kill")
        if reply["struck"]:
            call.faults.add(call.trap_label)
        self.finish(hand, call, reply)

    def resume(self, hand):
        hand.is_stopped = False
        os.kill(hand.pid, signal.SIGCONT)
        self.note(f"{hand.number}: goes on in {hand.call.label if hand.call else 'nothing'}")
        if not self.is_free:
            self.wait_for([hand])

    def kill(self, hand):
        """Ends a process for good, and counts nothing."""
        if hand.is_dead:
            return
        if hand.pid:
            os.kill(hand.pid, signal.SIGKILL)
            os.waitpid(hand.pid, 0)
        hand.end()

    def replace(self, hand):
        self.hands[hand.number] = Hand(hand.number)

    def bury(self, hand, status):
        """A process has ended: only SIGKILL may end one."""
        call = hand.call
        hand.end()
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            raise Wrong(f"{hand.number} ended with {status} in {call.label if call else 'nothing'}")
        self.note(f"{hand.number}: dead in {call.label if call else 'nothing'}")
        if call and not call.is_unsent:
            call.faults.add("kill")
            self.count(call)
        if call:
            if call.label in CHANGES:
                self.changes += 1
        self.mourn(hand, call)
        hand.call = None
        self.replace(hand)

    def count(self, call):
        for fault in call.faults or {"none"}:
            self.counts[call.label, fault] = self.counts.get((call.label, fault), 0) + 1

    # ---- answers ----

    def finish(self, hand, call, reply):
        self.count(call)
        if call.label in CHANGES:
            self.changes += 1
        error = reply["error"]
        if reply["struck"] and call.trap[2] > 0:
            hand.may_fail = True
        if error:
            self.note(f"{hand.number}: {call.label}: {error[0]}: {error[2][:200]}")
            self.explain(hand, call, error, reply["struck"])
        else:
            self.note(f"{hand.number}: {call.label}: ok {str(reply['result'])[:SHOWN]}")
        try:
            if error:
                if hand.has_writer and call.label in CHANGES:
                    hand.is_poisoned = hand.may_fail
                if call.fail:
                    call.fail(hand, call, reply)
            else:
                call.finish(hand, call, reply)
        except Wrong as e:
            raise Wrong(f"{hand.number}: {call.label}: {e}") from None
        if error and reply["struck"] and call.label not in CHANGES and not call.again:
            # The same must work once nothing fails.
            call.trap, call.again, call.faults = None, True, set()
            self.send(hand, call)
            if not self.is_free:
                self.wait_for([hand])

    def explain(self, hand, call, error, struck):
        """Whether what goes on explains an error."""
        name, kinds, text, trace = error
        said = f"{hand.number}: {call.label} {short(call)}: {name}: {text}\n{trace}"
        if name == "InvalidData" and call.may_lack_footers and call.arguments.get("look") == ("messages",):
            return
        if name in NEVER:
            raise Wrong(said)
        if struck and {*SYSTEM, "Closed"} & set(kinds):
            # Closed is what a writer says behind an error, as where `with` closes it.
            return
        if name == "Busy" and call.label in CHANGES and self.somebody_else(hand, call):
            return
        if call.label in CHANGES:
            if {"full disk", "read-only"} & call.faults and SYSTEM & set(kinds):
                return
            if hand.may_fail and hand.has_writer and {*SYSTEM, "Closed"} & set(kinds):
                return
        if name == "NotFound" and not call.existed:
            return
        if name == "InvalidArgument" and not call.existed and "only regular files can be mapped" in text:
            # The directory was made between two looks at it.
            return
        if name == "SchemaMismatch" and not call.existed and self.exists():
            # It is the second to make the table, and somebody has altered it already.
            return
        if name == "SchemaMismatch" and call.label == "alter" and "which lacks values of the first" in text:
            # It was wider already.
            return
        if self.was_overtaken(hand, call, name):
            return
        raise Wrong(said)

    def somebody_else(self, hand, call):
        """Whether another process has the table, or had it since the call began."""
        others = [it for it in self.hands if it is not hand]
        now = any(it.has_writer or it.call and it.call.label in CHANGES for it in others)
        return now or self.changes > call.changes_then + 1

    def is_moving(self, call):
        """Whether the table was changed since the call began."""
        return self.changes > call.changes_then or any(it.call and it.call.label in CHANGES for it in self.hands)

    # ---- what goes wrong around it ----

    def event(self):
        kinds = []
        if self.place.can_fill:
            kinds += ["fill", "free"]
        if self.place.can_remount:
            kinds += ["read-only"]
        if self.place.can_lose and self.exists():
            kinds += ["lost page cache", "reboot", "snapshot"]
        if not kinds:
            return
        event = self.dice.choice(kinds)
        if event == "fill" and not self.is_full and not self.is_read_only:
            self.place.fill(self.dice.choice([0, 4, 16, 64, 256, 600]) << 10)
            self.is_full = True
            for hand in self.hands:
                hand.may_fail = True
        elif event == "free" and self.is_full:
            self.place.free()
            self.is_full = False
        elif event == "read-only" and self.is_read_only:
            self.place.read_only(False)
            self.is_read_only = False
        elif event == "read-only" and self.exists() and not self.is_full:
            for hand in [it for it in self.hands if it.has_writer or it.call and it.call.label in CHANGES]:
                self.end_process(hand)
            self.is_read_only = self.place.read_only(True)
        elif event in ("lost page cache", "reboot", "snapshot"):
            self.lose(event)
            return
        else:
            return
        fault = "full disk" if self.is_full else "read-only" if self.is_read_only else None
        for hand in self.hands if fault else []:
            if hand.call:
                hand.call.faults.add(fault)
        self.note(f"{event}: full {self.is_full}, read-only {self.is_read_only}")

    def end_process(self, hand):
        """Kills a process whatever it does."""
        if hand.pid is None:
            return
        if hand.call:
            hand.call.faults.add("kill")
        os.kill(hand.pid, signal.SIGKILL)
        hand.is_stopped = False
        _, status = os.waitpid(hand.pid, 0)
        self.bury(hand, status)

    def lose(self, event):
        for hand in list(self.hands):
            self.end_process(hand)
        self.make_writable()
        if self.dice.random() < 0.7:
            self.place.write_back(self.name, self.dice)
        self.place.lose(event)
        self.note(event)
        self.know_loss()
        self.may_drop = True
        self.lost = (event, self.calls + RECENT)

    def set_trap(self, call):
        when = int(2 ** self.dice.uniform(0, 5.5))
        kind = self.dice.choice(["kill", "stop", "stop", *ERRORS, *ERRORS])
        kinds = worker.ALL_CALLS
        if self.may_drop and call.label == "open_writer" and self.dice.random() < 0.7:
            # What is read then decides on what is there.
            kind, when = "read", 1 + self.dice.randrange(16)
        elif kind == "stop" and self.dice.random() < 0.6:
            # Between one look at a name and the next.
            kinds = worker.CALLS["open"]
        if kind in ERRORS:
            call.trap = (worker.CALLS[kind], when, self.dice.choice(ERRORS[kind]), self.dice.random() < 0.3)
            call.trap_label = f"{kind} fails"
        else:
            call.trap = (kinds, when, -(signal.SIGKILL if kind == "kill" else signal.SIGSTOP), False)
            call.trap_label = kind

    def has_paused_reader(self):
        """Whether somebody is stopped in the middle of reading."""
        return any(it.is_stopped and it.call and it.call.label not in CHANGES for it in self.hands)

    def roll(self, ops):
        return self.dice.choices([op for _, op in ops], [weight for weight, _ in ops])[0]


def short(call):
    hidden = {"path", "rows"} if not call.other else {"rows"}
    said = {name: it for name, it in call.arguments.items() if name not in hidden}
    if "rows" in call.arguments:
        said["ids"] = [row["id"] for row in call.arguments["rows"]]
    return str(said)


def trap_text(trap):
    kinds, when, how, lasting = trap
    names = [name for name, bit in worker.CALLS.items() if kinds & bit]
    what = signal.Signals(-how).name if how < 0 else errno.errorcode[how]
    return f"[{what} at call {when} of {'all' if len(names) > 1 else names[0]}{' and later ones' if lasting else ''}]"


def stacks(pid):
    """What /proc tells of a process that hangs."""
    said = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        said.append(f"{task.name} {(task / 'wchan').read_text()} {(task / 'syscall').read_text().strip()}")
    return "; ".join(said)


def difference(got, want):
    if isinstance(got, list) and isinstance(want, list):
        if len(got) != len(want):
            return f"{len(got)} rows, expected {len(want)}: {str(got)[:300]}, expected {str(want)[:300]}"
        for number, (left, right) in enumerate(zip(got, want)):
            if left != right:
                return f"row {number} is {left}, expected {right}"
    return f"{str(got)[:500]}, expected {str(want)[:500]}"
