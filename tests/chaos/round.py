"""A round of the chaos test: a table, processes that use it, and failures meanwhile."""

import errno
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from oracle import Snapshot, Violation
from worker import ALL_CALLS, CALLS, Trap, start_worker

PATIENCE = float(os.environ.get("ARROWWOOD_PATIENCE", "120"))
# How many characters of an answer are logged.
LOGGED_CHARACTERS = int(os.environ.get("ARROWWOOD_CHAOS_SHOWN", "100"))
# How many lines of the log a failure shows.
LOGGED_LINES = 60
WORKERS = 4
# Operations that change a table, and not only read it.
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
# Errors that a failing system call may cause. It must never look like a missing table, damage or the end of the data.
SYSTEM_ERRORS = {"IoError", "PermissionDenied", "MemoryError"}
# Errors that nothing in a round may cause.
FORBIDDEN_ERRORS = {"InternalError", "PanicException", "InvalidData"}
ERRNOS = {
    "read": [errno.EIO, errno.ENOMEM],
    "write": [errno.EIO, errno.ENOSPC, errno.EDQUOT],
    "sync": [errno.EIO, errno.ENOSPC],
    "open": [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM],
    "name": [errno.EIO, errno.ENOSPC, errno.EROFS],
    "map": [errno.ENOMEM],
    "space": [errno.ENOSPC, errno.EIO, errno.EDQUOT],
}
# After a loss of unwritten pages, this many calls are counted under that fault.
CALLS_AFTER_LOSS = 12


@dataclass
class Call:
    """A command to a worker, and the handlers of its answer."""

    # The name of the operation in the log and in the counts.
    label: str
    command: str
    arguments: dict
    on_success: Callable
    on_error: Callable | None = None
    # The knowledge about the table when the call began. Rounds of partitions have a dict by partition.
    snapshot: Snapshot | dict | None = None
    trap: Trap | None = None
    trap_label: str | None = None
    faults: set = field(default_factory=set)
    # The round's count of changes when the call began.
    changes_before: int = 0
    # True if the table certainly existed when the call began.
    table_existed: bool = False
    is_retry: bool = False
    # True if another writer has opened the table since the call began.
    is_overtaken: bool = False
    is_unsent: bool = False
    # True if the call uses the second mount of the volume.
    uses_other_mount: bool = False
    first_row_was_certain: bool = False
    # True if the footers that other Arrow readers use may be lost, as no writer has opened the table since the loss.
    may_lack_footers: bool = False


class WorkerHandle:
    """A worker process, what it holds, and the call that it is working on."""

    def __init__(self, number: int):
        self.number = number
        # The process is started for its first call.
        self.connection: Connection | None = None
        self.pid: int | None = None
        self.call: Call | None = None
        self.is_stopped = False
        self.is_dead = False
        self.has_writer = False
        # True if the writer had an error that makes it refuse further calls.
        self.is_poisoned = False
        # True if the writer met a fault after which it may refuse calls.
        self.may_fail = False
        # How many seconds of rows the writer retains. None means all rows.
        self.retained_seconds: int | None = None
        self.datasets, self.followers, self.aggregations = {}, {}, {}

    def start(self, others: list["WorkerHandle"]):
        self.connection, remote_end = Pipe()
        parent_ends = [other.connection for other in others if other.connection] + [self.connection]
        self.pid = start_worker(remote_end, parent_ends)
        remote_end.close()

    def mark_dead(self):
        self.is_dead = True
        if self.connection:
            self.connection.close()

    @property
    def is_idle(self) -> bool:
        return not self.is_dead and not self.is_stopped and self.call is None

    @property
    def is_changing(self) -> bool:
        """Returns whether the worker is in a call that changes the table."""
        return self.call is not None and self.call.label in CHANGES


class Round:
    """The course of a round. Subclasses choose the calls and know what their answers must be.

    They implement `describe`, `snapshot`, `table_exists`, `choose_call`, `check_final_state`, `on_page_cache_lost`,
    `on_death` and `explains_error`.
    """

    def __init__(self, seed: int, place, counts: dict, can_trap: bool):
        self.seed, self.place, self.counts, self.can_trap = seed, place, counts, can_trap
        self.rng = random.Random(seed)
        # True if calls run concurrently. Otherwise they run one at a time, except for calls that are stopped midway.
        self.is_concurrent = self.rng.random() < 0.25
        self.name = f"table-{seed}"
        self.path = place.path(self.name)
        self.workers: list[WorkerHandle] = []
        self.log: list[str] = []
        # How often a call that changes the table began or ended.
        self.changes = 0
        self.names_used = 0
        self.is_full = self.is_read_only = False
        self.last_loss: str | None = None
        self.recent_until_call = 0
        # True if the next writer may find fewer rows than before.
        self.may_drop = False
        self.calls = 0
        self.trap_probability = self.rng.choice([0.0, 0.1, 0.3, 0.5])

    # ---- the course ----

    def play(self):
        self.note(f"{'all at once' if self.is_concurrent else 'one at a time'}, {self.describe()}")
        try:
            for number in range(WORKERS):
                self.workers.append(WorkerHandle(number))
            for _ in range(self.rng.randrange(20, 70)):
                self.step()
            self.finish()
        except Violation as e:
            raise Violation(f"seed {self.seed}: {e}\n" + "\n".join(self.log[-LOGGED_LINES:])) from None
        finally:
            for worker in self.workers:
                self.end_worker(worker)
            if self.is_read_only:
                self.place.read_only(False)
            if self.is_full:
                self.place.free()

    def note(self, text: str):
        self.log.append(text)
        if os.environ.get("ARROWWOOD_CHAOS_TRACE"):
            print(f"    {text}", flush=True)

    def step(self):
        if self.rng.random() < 0.06:
            self.cause_event()
        idle = [worker for worker in self.workers if worker.is_idle]
        if self.is_concurrent and (not idle or self.rng.random() < 0.3):
            self.disturb_busy_worker()
            self.wait_for_answers(self.workers, any_of=True)
            idle = [worker for worker in self.workers if worker.is_idle]
        stopped = [worker for worker in self.workers if worker.is_stopped]
        if stopped and (not idle or self.rng.random() < 0.25):
            self.resume(self.rng.choice(stopped))
            return
        if not idle:
            return
        worker = self.rng.choice(idle)
        call = self.choose_call(worker)
        if call is None:
            return
        self.send_and_wait(worker, call)

    def disturb_busy_worker(self):
        """Kills or stops a worker in the middle of a call, sometimes."""
        busy = [worker for worker in self.workers if worker.call and not worker.is_stopped]
        if not busy or self.rng.random() < 0.7:
            return
        worker = self.rng.choice(busy)
        if self.rng.random() < 0.5:
            worker.call.faults.add("kill")
            os.kill(worker.pid, signal.SIGKILL)
            self.note(f"{worker.number}: killed in {worker.call.label}")
        else:
            worker.call.faults.add("stop")
            os.kill(worker.pid, signal.SIGSTOP)
            worker.is_stopped = True
            self.note(f"{worker.number}: stopped in {worker.call.label}")

    def finish(self):
        """Ends all calls and checks the table in new processes."""
        self.finish_calls()
        for worker in self.workers:
            self.end_worker(worker)
        self.make_writable()
        self.check_final_state()

    def make_writable(self):
        if self.is_full:
            self.place.free()
            self.is_full = False
        if self.is_read_only:
            self.place.read_only(False)
            self.is_read_only = False

    def finish_calls(self):
        while any(worker.call for worker in self.workers):
            for worker in self.workers:
                if worker.is_stopped:
                    self.resume(worker)
            self.wait_for_answers([worker for worker in self.workers if worker.call])

    # ---- processes ----

    def send_and_wait(self, worker: WorkerHandle, call: Call):
        """Sends a call, and waits for its answer unless calls run concurrently."""
        self.send(worker, call)
        if not self.is_concurrent:
            self.wait_for_answers([worker])

    def send(self, worker: WorkerHandle, call: Call):
        if call.label in CHANGES:
            self.changes += 1
        self.calls += 1
        call.table_existed = self.table_exists()
        call.snapshot, call.changes_before = self.snapshot(), self.changes
        if self.is_full:
            call.faults.add("full disk")
        if self.is_read_only:
            call.faults.add("read-only")
        if self.last_loss and self.calls < self.recent_until_call:
            call.faults.add(self.last_loss)
        if call.uses_other_mount:
            call.faults.add("other mount")
        worker.call = call
        trap_text = f" {describe_trap(call.trap)}" if call.trap else ""
        self.note(f"{worker.number}: {call.label} {describe_arguments(call)}{trap_text}")
        if worker.pid is None:
            worker.start([other for other in self.workers if not other.is_dead])
        try:
            worker.connection.send((call.command, call.arguments, call.trap))
        except (BrokenPipeError, ConnectionResetError):
            # The process was killed after its last answer. Waiting for the answer to this call will notice that.
            call.is_unsent = True

    def wait_for_answers(self, workers: list[WorkerHandle], any_of: bool = False):
        """Waits until all calls of the workers, or any of them, are answered or their processes are stopped or dead."""
        deadline = time.monotonic() + PATIENCE
        while waiting := [worker for worker in workers if worker.call and not worker.is_stopped]:
            # With traps, a process may stop or die at any moment without an answer.
            ready = wait([worker.connection for worker in waiting], timeout=0.002 if self.can_trap else 1)
            for worker in waiting:
                if not worker.call or worker.is_stopped:
                    # The handler of another answer has waited for this one already.
                    continue
                if worker.connection in ready:
                    self.receive(worker)
                else:
                    self.poll_process(worker)
            if any_of and any(not worker.call or worker.is_stopped for worker in waiting):
                return
            if time.monotonic() > deadline:
                hanging = (f"{it.number} hangs in {it.call.label}: {describe_threads(it.pid)}" for it in waiting)
                raise Violation("\n".join(hanging))

    def poll_process(self, worker: WorkerHandle):
        """Checks whether a process was stopped or is dead."""
        pid, status = os.waitpid(worker.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            if not worker.is_stopped and worker.call:
                worker.is_stopped = True
                worker.call.faults.add("stop")
                self.note(f"{worker.number}: stopped in {worker.call.label}")
            return
        self.handle_death(worker, status)

    def wait_for_death(self, worker: WorkerHandle):
        """Waits until a process is dead that was killed."""
        deadline = time.monotonic() + PATIENCE
        while not worker.is_dead:
            if time.monotonic() > deadline:
                raise Violation(f"{worker.number} has a writer, and another process has one")
            self.poll_process(worker)
            time.sleep(0.001)

    def receive(self, worker: WorkerHandle):
        try:
            reply = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            _, status = os.waitpid(worker.pid, 0)
            self.handle_death(worker, status)
            return
        call, worker.call = worker.call, None
        # A process that is killed from now on answered before.
        call.faults.discard("kill")
        if reply["struck"]:
            call.faults.add(call.trap_label)
        self.handle_reply(worker, call, reply)

    def resume(self, worker: WorkerHandle):
        worker.is_stopped = False
        os.kill(worker.pid, signal.SIGCONT)
        self.note(f"{worker.number}: goes on in {worker.call.label if worker.call else 'nothing'}")
        if not self.is_concurrent:
            self.wait_for_answers([worker])

    def end_worker(self, worker: WorkerHandle):
        """Ends a process without counting a fault."""
        if worker.is_dead:
            return
        if worker.pid:
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
        worker.mark_dead()

    def kill_worker(self, worker: WorkerHandle):
        """Kills a process, whatever it is doing, and replaces it."""
        if worker.pid is None:
            return
        if worker.call:
            worker.call.faults.add("kill")
        os.kill(worker.pid, signal.SIGKILL)
        worker.is_stopped = False
        _, status = os.waitpid(worker.pid, 0)
        self.handle_death(worker, status)

    def replace_worker(self, worker: WorkerHandle):
        self.workers[worker.number] = WorkerHandle(worker.number)

    def handle_death(self, worker: WorkerHandle, status: int):
        """Checks that a process was ended by SIGKILL, and replaces it."""
        call = worker.call
        label = call.label if call else "nothing"
        worker.mark_dead()
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            raise Violation(f"{worker.number} ended with {status} in {label}")
        self.note(f"{worker.number}: dead in {label}")
        if call and not call.is_unsent:
            call.faults.add("kill")
            self.count(call)
        if call and call.label in CHANGES:
            self.changes += 1
        self.on_death(worker, call)
        worker.call = None
        self.replace_worker(worker)

    def count(self, call: Call):
        for fault in call.faults or {"none"}:
            self.counts[call.label, fault] = self.counts.get((call.label, fault), 0) + 1

    # ---- answers ----

    def handle_reply(self, worker: WorkerHandle, call: Call, reply: dict):
        self.count(call)
        if call.label in CHANGES:
            self.changes += 1
        error = reply["error"]
        if reply["struck"] and call.trap.action > 0:
            worker.may_fail = True
        if error:
            self.note(f"{worker.number}: {call.label}: {error.name}: {error.text[:200]}")
            self.check_error(worker, call, error, reply["struck"])
        else:
            self.note(f"{worker.number}: {call.label}: ok {str(reply['result'])[:LOGGED_CHARACTERS]}")
        try:
            if not error:
                call.on_success(worker, call, reply)
            else:
                if worker.has_writer and call.label in CHANGES:
                    worker.is_poisoned = worker.may_fail
                if call.on_error:
                    call.on_error(worker, call, reply)
        except Violation as e:
            raise Violation(f"{worker.number}: {call.label}: {e}") from None
        if error and reply["struck"] and call.label not in CHANGES and not call.is_retry:
            # A read must succeed once no call fails.
            call.trap, call.is_retry, call.faults = None, True, set()
            self.send_and_wait(worker, call)

    def check_error(self, worker: WorkerHandle, call: Call, error, struck: int):
        """Raises a violation unless an error is explained by what happens in the round."""
        if error.name == "InvalidData" and call.may_lack_footers and call.arguments.get("query") == ("messages",):
            return
        if error.name not in FORBIDDEN_ERRORS and self.is_error_expected(worker, call, error, struck):
            return
        raise Violation(
            f"{worker.number}: {call.label} {describe_arguments(call)}: {error.name}: {error.text}\n{error.trace}"
        )

    def is_error_expected(self, worker: WorkerHandle, call: Call, error, struck: int) -> bool:
        name, text = error.name, error.text
        is_change = call.label in CHANGES
        is_system_error = bool(SYSTEM_ERRORS & set(error.base_names))
        # A writer reports Closed after an error, for example when `with` closes it.
        is_system_error_or_closed = is_system_error or "Closed" in error.base_names
        if struck and is_system_error_or_closed:
            return True
        if is_change and {"full disk", "read-only"} & call.faults and is_system_error:
            return True
        if is_change and worker.may_fail and worker.has_writer and is_system_error_or_closed:
            return True
        if name == "Busy" and is_change and self.was_used_by_another(worker, call):
            return True
        if not call.table_existed:
            if name == "NotFound":
                return True
            # The directory was created between two calls that look at it.
            if name == "InvalidArgument" and "only regular files can be mapped" in text:
                return True
            # Another worker created the table, and has altered it already.
            if name == "SchemaMismatch" and self.table_exists():
                return True
        # The column was widened before.
        if name == "SchemaMismatch" and call.label == "alter" and "which lacks values of the first" in text:
            return True
        return self.explains_error(worker, call, name)

    def was_used_by_another(self, worker: WorkerHandle, call: Call) -> bool:
        """Returns whether another process writes to the table, or has written since the call began."""
        others = [other for other in self.workers if other is not worker]
        is_used = any(other.has_writer or other.is_changing for other in others)
        return is_used or self.changes > call.changes_before + 1

    def has_writer(self) -> bool:
        return any(worker.has_writer for worker in self.workers)

    def is_table_changing(self) -> bool:
        return any(worker.is_changing for worker in self.workers)

    def has_changed_since(self, call: Call) -> bool:
        """Returns whether the table may have been changed since the call began."""
        return self.changes != call.changes_before or self.is_table_changing()

    # ---- failures around the table ----

    def cause_event(self):
        """Fills or frees the disk, makes it read-only or writable, or loses its unwritten pages."""
        events = []
        if self.place.can_fill:
            events += ["fill", "free"]
        if self.place.can_remount:
            events += ["read-only"]
        if self.place.can_lose and self.table_exists():
            events += ["lost page cache", "reboot", "snapshot"]
        if not events:
            return
        event = self.rng.choice(events)
        if event == "fill" and not self.is_full and not self.is_read_only:
            self.place.fill(self.rng.choice([0, 4, 16, 64, 256, 600]) << 10)
            self.is_full = True
            for worker in self.workers:
                worker.may_fail = True
        elif event == "free" and self.is_full:
            self.place.free()
            self.is_full = False
        elif event == "read-only" and self.is_read_only:
            self.place.read_only(False)
            self.is_read_only = False
        elif event == "read-only" and self.table_exists() and not self.is_full:
            for worker in [it for it in self.workers if it.has_writer or it.is_changing]:
                self.kill_worker(worker)
            self.is_read_only = self.place.read_only(True)
        elif event in ("lost page cache", "reboot", "snapshot"):
            self.lose_unwritten_pages(event)
            return
        else:
            return
        self.add_disk_fault_to_calls()
        self.note(f"{event}: full {self.is_full}, read-only {self.is_read_only}")

    def add_disk_fault_to_calls(self):
        if self.is_full:
            fault = "full disk"
        elif self.is_read_only:
            fault = "read-only"
        else:
            return
        for worker in self.workers:
            if worker.call:
                worker.call.faults.add(fault)

    def lose_unwritten_pages(self, event: str):
        for worker in list(self.workers):
            self.kill_worker(worker)
        self.make_writable()
        if self.rng.random() < 0.7:
            self.place.write_back(self.name, self.rng)
        self.place.lose(event)
        self.note(event)
        self.on_page_cache_lost()
        self.may_drop = True
        self.last_loss = event
        self.recent_until_call = self.calls + CALLS_AFTER_LOSS

    def set_trap(self, call: Call):
        """Makes one of the system calls of a call fail, stop the process or kill it."""
        call_number = int(2 ** self.rng.uniform(0, 5.5))
        kind = self.rng.choice(["kill", "stop", "stop", *ERRNOS, *ERRNOS])
        kinds = ALL_CALLS
        if self.may_drop and call.label == "open_writer" and self.rng.random() < 0.7:
            # After a loss, the first reads of a writer decide which rows it keeps.
            kind, call_number = "read", 1 + self.rng.randrange(16)
        elif kind == "stop" and self.rng.random() < 0.6:
            # Stops between two look-ups of a name.
            kinds = CALLS["open"]
        if kind in ERRNOS:
            number = self.rng.choice(ERRNOS[kind])
            call.trap = Trap(CALLS[kind], call_number, number, is_lasting=self.rng.random() < 0.3)
            call.trap_label = f"{kind} fails"
        else:
            number = signal.SIGKILL if kind == "kill" else signal.SIGSTOP
            call.trap = Trap(kinds, call_number, -number, is_lasting=False)
            call.trap_label = kind

    def has_stopped_reader(self) -> bool:
        return any(it.is_stopped and it.call and it.call.label not in CHANGES for it in self.workers)

    def choose_weighted(self, choices: list[tuple[int, Callable]]) -> Callable:
        return self.rng.choices([choice for _, choice in choices], [weight for weight, _ in choices])[0]


def describe_arguments(call: Call) -> str:
    hidden = {"rows"} if call.uses_other_mount else {"path", "rows"}
    arguments = {name: value for name, value in call.arguments.items() if name not in hidden}
    if "rows" in call.arguments:
        arguments["ids"] = [row["id"] for row in call.arguments["rows"]]
    return str(arguments)


def describe_trap(trap: Trap) -> str:
    names = [name for name, bit in CALLS.items() if trap.kinds & bit]
    action = signal.Signals(-trap.action).name if trap.action < 0 else errno.errorcode[trap.action]
    calls = "all" if len(names) > 1 else names[0]
    return f"[{action} at call {trap.call_number} of {calls}{' and later ones' if trap.is_lasting else ''}]"


def describe_threads(pid: int) -> str:
    """Returns where the threads of a process that hangs are waiting, from /proc."""
    threads = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        threads.append(f"{task.name} {(task / 'wchan').read_text()} {(task / 'syscall').read_text().strip()}")
    return "; ".join(threads)


def describe_difference(actual, expected) -> str:
    if isinstance(actual, list) and isinstance(expected, list):
        if len(actual) != len(expected):
            return f"{len(actual)} rows, expected {len(expected)}: {str(actual)[:300]}, expected {str(expected)[:300]}"
        for number, (left, right) in enumerate(zip(actual, expected)):
            if left != right:
                return f"row {number} is {left}, expected {right}"
    return f"{str(actual)[:500]}, expected {str(expected)[:500]}"
