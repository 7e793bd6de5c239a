"""A server whose volume fails, does not answer, is copied as it is, or loses its machine, while producers send batches.

Rows that were acknowledged as durable must be there behind it, and each numbered batch whole and once: what is sent
again is no duplicate of rows that were lost. A program of its own, as mounts need root and a namespace:
`--seed 7 --rounds 1` plays round 7, as far as threads and the disk do the same.
"""

import argparse
import contextlib
import fcntl
import http.client
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

from waits import PATIENCE, join, wait_until

sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
from places import EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH, Refused, Volume, own_mounts

# Producers with even numbers wait for durable rows, the others for visible ones.
PRODUCERS = 4
SCHEMA = "producer: int64 not null, sequence: int64 not null, copy: int64 not null"
LOSSES = ["shutdown", "shutdown in service", "snapshot", "reboot", "frozen"]
# Whoever writes waits until the volume is thawed.
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
# Reads a table in a process that was started behind the loss: each has its own boot.
LOOK = """
import json, sys
import arrowwood as aw
report = aw.check(sys.argv[1])
rows = aw.open(sys.argv[1]).to_arrow().to_pydict()
print(json.dumps({"damage": [str(it) for it in report.findings if it.is_damage], "rows": list(zip(*rows.values()))}))
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="file systems are mounted")
def test_a_volume_that_is_lost_costs_no_acknowledged_batch():
    command = [sys.executable, __file__, "--seed", "1", "--rounds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
    if "left out" in done.stdout:
        pytest.skip(done.stdout)
    assert all(f"{loss}: 1" in done.stdout for loss in LOSSES), done.stdout


def copies(sequence):
    """The rows of a batch."""
    return 1 + sequence % 40


class Server:
    def __init__(self, folder):
        command = [sys.executable, "-m", "arrowwood._cli", "serve", folder, "--listen", "127.0.0.1:0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        assert self.address, "the server has not started"

    def end(self, how):
        self.process.send_signal(how)
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


class Producer(threading.Thread):
    """Sends one batch after the other until it is told to stop; what fails is sent again."""

    def __init__(self, number, play):
        super().__init__(name=f"producer {number}")
        self.number, self.play = number, play
        self.is_durable = number % 2 == 0
        self.sequence = 0
        # The last batch that was acknowledged, as durable if so asked; and how many were since the last loss.
        self.acknowledged = -1
        self.since = 0
        self.wrong = None

    def run(self):
        while not self.play.is_over:
            address = self.play.server.address
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                contextlib.closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection,
            ):
                while not self.play.is_over and self.play.server.address == address:
                    self.send(connection)

    def send(self, connection):
        sequence = self.sequence
        rows = [{"producer": self.number, "sequence": sequence, "copy": copy} for copy in range(copies(sequence))]
        headers = {
            "Content-Type": "application/x-ndjson",
            "Producer": f"p{self.number}",
            "Producer-Sequence": str(sequence),
            "Ack": "durable" if self.is_durable else "visible",
        }
        body = "\n".join(json.dumps(row) for row in rows)
        connection.request("POST", "/v1/tables/t/rows", body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status == 200:
            self.take(found)
        elif answer.status == 409 and not self.is_durable:
            # Visible batches were lost: those are sent again.
            self.sequence = found["expected"]
            self.play.counts["batches to send again"] += sequence - self.sequence
        elif answer.status < 500:
            self.wrong = f"{answer.status} {found}"
            raise OSError("refused")

    def take(self, found):
        end = (found["first_row"] or 0) + found["rows"]
        if self.is_durable and (found["durable"] or 0) < end:
            self.wrong = f"acknowledged before it is durable: {found}"
        self.play.counts["duplicates"] += found["duplicate"]
        self.acknowledged = self.sequence
        self.since += 1
        # As if the answer had been lost.
        self.sequence += self.play.dice.random() < 0.9


class Play:
    def __init__(self, volume, seed):
        self.volume, self.dice = volume, random.Random(seed)
        self.folder = volume.path("served")
        self.table = volume.path("served/t")
        self.counts = Counter()
        self.is_over = False
        self.how = LOSSES[seed % len(LOSSES)]
        os.mkdir(self.folder)
        self.server = Server(self.folder)
        connection = http.client.HTTPConnection(self.server.address, timeout=PATIENCE)
        options = self.dice.choice(["", "?segment_rows=64", "?segment_rows=1000"])
        connection.request("PUT", f"/v1/tables/t{options}", SCHEMA)
        assert connection.getresponse().status == 201
        connection.close()
        self.producers = [Producer(number, self) for number in range(PRODUCERS)]

    def run(self):
        for producer in self.producers:
            producer.start()
        try:
            for _ in range(self.dice.randrange(1, 4)):
                self.go_on()
                self.lose()
            self.go_on()
        finally:
            self.is_over = True
            for producer in self.producers:
                join(producer)
        assert self.server.end(signal.SIGTERM) == 0
        self.judge(is_closed=True)

    def go_on(self):
        """Waits until each producer has got some batches acknowledged."""
        for producer in self.producers:
            producer.since = 0
        some = self.dice.randrange(1, 60)
        for producer in self.producers:
            wait_until(
                lambda producer=producer: producer.since >= some or producer.wrong or not producer.is_alive(),
                f"{producer.name} has sent {some} batches",
            )
            assert producer.is_alive() and not producer.wrong, f"{producer.name}: {producer.wrong}"

    def lose(self):
        """The volume loses what was not written back, and another server goes on."""
        self.volume.write_back("served/t", self.dice)
        if self.how == "frozen":
            self.tell_volume(FIFREEZE, 0)
            try:
                self.serve_without_disk()
            finally:
                self.tell_volume(FITHAW, 0)
            return
        if self.how == "shutdown in service":
            # The server goes on, and must not say of anything that it is durable.
            self.tell_volume(EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
            self.serve_without_disk()
            self.server.end(signal.SIGKILL)
            self.volume.unmount()
            self.volume.mount()
        else:
            self.server.end(signal.SIGKILL)
            self.volume.lose(self.how)
        self.judge(is_closed=False)
        self.server = Server(self.folder)

    def tell_volume(self, request, argument):
        place = os.open(self.volume.one, os.O_RDONLY)
        try:
            fcntl.ioctl(place, request, struct.pack("i", argument))
        finally:
            os.close(place)

    def serve_without_disk(self):
        """Checks a server whose disk accepts no writes, while producers continue to send."""
        with contextlib.closing(http.client.HTTPConnection(self.server.address, timeout=PATIENCE)) as connection:
            wait_until(lambda: self.get(connection, "/readyz") == 503, "the server says that its disk takes no rows")
            assert self.get(connection, "/healthz") == 200
            # After a shutdown of the volume, only data in memory can be read.
            for path in ["/v1/tables", "/v1/tables/t/rows?limit=1"] if self.how == "frozen" else []:
                assert self.get(connection, path) == 200, path

    def get(self, connection, path):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def judge(self, is_closed):
        done = subprocess.run(
            [sys.executable, "-c", LOOK, self.table], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert not found["damage"], found["damage"]
        batches = {number: [] for number in range(PRODUCERS)}
        for number, sequence, copy in found["rows"]:
            batches[number].append((sequence, copy))
        for producer in self.producers:
            have = batches[producer.number]
            sequences = 1 + have[-1][0] if have else 0
            expected = [(sequence, copy) for sequence in range(sequences) for copy in range(copies(sequence))]
            assert have == expected, f"{producer.name}: {have}"
            if is_closed or producer.is_durable:
                known = f"{producer.name}: {producer.acknowledged} acknowledged, {sequences} there"
                assert producer.acknowledged < sequences, known
        self.counts["rows"] += len(found["rows"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="that of the first round")
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    home = tempfile.mkdtemp(prefix="arrowwood-serve-volume-", dir=memory)
    try:
        play_rounds(args, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def play_rounds(args, home):
    try:
        own_mounts()
        volume = Volume(home)
    except (Refused, OSError) as e:
        print(f"left out: {e}")
        return
    counts = Counter()
    try:
        for seed in range(args.seed, args.seed + args.rounds):
            play = Play(volume, seed)
            try:
                play.run()
            except BaseException:
                print(f"seed {seed}, {play.how}")
                raise
            counts[play.how] += 1
            counts += play.counts
            volume.clean()
    finally:
        volume.close()
    print(", ".join(f"{what}: {count}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
