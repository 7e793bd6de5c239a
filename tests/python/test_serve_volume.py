"""Tests that a server loses no acknowledged batch when its volume fails.

Producers send numbered batches to a server whose volume is shut down, frozen, copied while in use, or loses its
machine. After each loss, every batch that was acknowledged as durable must be in the table, and each batch complete and
once: a batch that is sent again must be neither lost nor taken for a duplicate of rows that were lost.

This is also a program, because mounts need root and a namespace of their own. `--seed 7 --rounds 1` plays round 7
again, as far as threads and the disk behave the same.
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
from collections.abc import Iterator
from pathlib import Path

import pytest

from waits import PATIENCE, join, wait_until

sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
from places import EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH, Refused, Volume, own_mounts

# Producers with even numbers wait until rows are durable, the others until they are visible.
PRODUCERS = 4
SCHEMA = "producer: int64 not null, sequence: int64 not null, copy: int64 not null"
LOSSES = ["shutdown", "shutdown in service", "snapshot", "reboot", "frozen"]
# The share of answers after which a producer goes on. After the others, it sends the batch again.
ANSWERS_RECEIVED = 0.9

# Requests of ioctl(2). Writes to a frozen file system block until it is thawed.
FIFREEZE = 0xC0045877
FITHAW = 0xC0045878

# Prints the damage and the rows of a table. It runs in a new process after each loss: a simulated reboot changes the id
# of the boot for processes that are started after it.
INSPECT_TABLE = """
import json, sys
import arrowwood as aw
report = aw.check(sys.argv[1])
rows = aw.open(sys.argv[1]).to_arrow().to_pydict()
print(json.dumps({"damage": [str(it) for it in report.findings if it.is_damage], "rows": list(zip(*rows.values()))}))
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="file systems are mounted")
def test_lost_volume_loses_no_acknowledged_batch():
    command = [sys.executable, __file__, "--seed", "1", "--rounds", str(len(LOSSES))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-5000:]
    if "left out" in result.stdout:
        pytest.skip(result.stdout)
    assert all(f"{loss}: 1" in result.stdout for loss in LOSSES), result.stdout


def batch_rows(sequence: int) -> int:
    """Returns the number of rows of a batch, which follows from its sequence number."""
    return 1 + sequence % 40


class Server:
    """A process of ``arrowwood serve``."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "arrowwood._cli", "serve", folder, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        assert self.address, "the server has not started"

    def stop(self, signal_number):
        """Sends a signal to the server and returns its exit status."""
        self.process.send_signal(signal_number)
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


class Producer(threading.Thread):
    """Sends one batch after the other until the round is over, and sends a batch again after an error."""

    def __init__(self, number: int, game: "Game"):
        super().__init__(name=f"producer {number}")
        self.number = number
        self.game = game
        self.is_durable = number % 2 == 0
        # The number of the next batch.
        self.sequence = 0
        # The number of the last batch that was acknowledged.
        self.last_acknowledged = -1
        # How many batches were acknowledged since the last loss.
        self.acknowledged_since_loss = 0
        self.failure = None

    def run(self):
        while not self.game.is_over:
            address = self.game.server.address
            # The server may be killed at any time: connect to the next one and send the batch again.
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                contextlib.closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection,
            ):
                while not self.game.is_over and self.game.server.address == address:
                    self.send_batch(connection)

    def send_batch(self, connection):
        sequence = self.sequence
        rows = [{"producer": self.number, "sequence": sequence, "copy": copy} for copy in range(batch_rows(sequence))]
        headers = {
            "Content-Type": "application/x-ndjson",
            "Producer": f"p{self.number}",
            "Producer-Sequence": str(sequence),
            "Ack": "durable" if self.is_durable else "visible",
        }
        body = "\n".join(json.dumps(row) for row in rows)
        connection.request("POST", "/v1/tables/t/rows", body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 200:
            self.on_acknowledged(answer)
        elif response.status == 409 and not self.is_durable:
            # Batches that were only visible are lost: send them again.
            self.sequence = answer["expected"]
            self.game.counts["batches to send again"] += sequence - self.sequence
        elif response.status < 500:
            self.failure = f"{response.status} {answer}"
            raise OSError("refused")

    def on_acknowledged(self, answer):
        end = (answer["first_row"] or 0) + answer["rows"]
        if self.is_durable and (answer["durable"] or 0) < end:
            self.failure = f"acknowledged before it is durable: {answer}"
        self.game.counts["duplicates"] += answer["duplicate"]
        self.last_acknowledged = self.sequence
        self.acknowledged_since_loss += 1
        if self.game.random.random() < ANSWERS_RECEIVED:
            self.sequence += 1


class Game:
    """One round: a server on the volume, its producers, and up to three losses of one kind."""

    def __init__(self, volume: Volume, seed: int):
        self.volume = volume
        self.random = random.Random(seed)
        self.folder = volume.path("served")
        self.table = volume.path("served/t")
        self.counts = Counter()
        self.is_over = False
        self.loss = LOSSES[seed % len(LOSSES)]
        os.mkdir(self.folder)
        self.server = Server(self.folder)
        self.create_table()
        self.producers = [Producer(number, self) for number in range(PRODUCERS)]

    def create_table(self):
        options = self.random.choice(["", "?segment_rows=64", "?segment_rows=1000"])
        with self.connect() as connection:
            connection.request("PUT", f"/v1/tables/t{options}", SCHEMA)
            assert connection.getresponse().status == 201

    @contextlib.contextmanager
    def connect(self) -> Iterator[http.client.HTTPConnection]:
        with contextlib.closing(http.client.HTTPConnection(self.server.address, timeout=PATIENCE)) as connection:
            yield connection

    def play(self):
        for producer in self.producers:
            producer.start()
        try:
            for _ in range(self.random.randrange(1, 4)):
                self.wait_for_batches()
                self.lose_volume()
            self.wait_for_batches()
        finally:
            self.is_over = True
            for producer in self.producers:
                join(producer)
        assert self.server.stop(signal.SIGTERM) == 0
        self.check_table(is_closed=True)

    def wait_for_batches(self):
        """Waits until some batches of each producer are acknowledged."""
        for producer in self.producers:
            producer.acknowledged_since_loss = 0
        count = self.random.randrange(1, 60)
        for producer in self.producers:

            def has_sent_or_failed(producer=producer):
                has_sent = producer.acknowledged_since_loss >= count
                return has_sent or producer.failure or not producer.is_alive()

            wait_until(has_sent_or_failed, f"{producer.name} has sent {count} batches")
            assert producer.is_alive() and not producer.failure, f"{producer.name}: {producer.failure}"

    def lose_volume(self):
        """Makes the volume lose what was not written back, and starts another server on it.

        A frozen volume loses nothing, and its server continues.
        """
        self.volume.write_back("served/t", self.random)
        if self.loss == "frozen":
            self.control_volume(FIFREEZE, 0)
            try:
                self.check_server_without_disk()
            finally:
                self.control_volume(FITHAW, 0)
            return
        if self.loss == "shutdown in service":
            # The server continues for a while, and must not acknowledge any batch as durable.
            self.control_volume(EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
            self.check_server_without_disk()
            self.server.stop(signal.SIGKILL)
            self.volume.unmount()
            self.volume.mount()
        else:
            self.server.stop(signal.SIGKILL)
            self.volume.lose(self.loss)
        self.check_table(is_closed=False)
        self.server = Server(self.folder)

    def control_volume(self, request: int, argument: int):
        """Sends a request to the file system with ioctl(2)."""
        root = os.open(self.volume.one, os.O_RDONLY)
        try:
            fcntl.ioctl(root, request, struct.pack("i", argument))
        finally:
            os.close(root)

    def check_server_without_disk(self):
        """Checks a server whose disk accepts no writes, while producers continue to send."""
        with self.connect() as connection:
            wait_until(lambda: get_status(connection, "/readyz") == 503, "the server says that its disk takes no rows")
            assert get_status(connection, "/healthz") == 200
            # After a shutdown of the volume, only data in memory can be read.
            if self.loss == "frozen":
                for path in ["/v1/tables", "/v1/tables/t/rows?limit=1"]:
                    assert get_status(connection, path) == 200, path

    def check_table(self, is_closed: bool):
        """Checks that batches are complete, in order and not lost.

        Batches that are acknowledged as visible may be lost, unless the server has closed the table.
        """
        command = [sys.executable, "-c", INSPECT_TABLE, self.table]
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout)
        assert not report["damage"], report["damage"]

        rows_by_producer = {number: [] for number in range(PRODUCERS)}
        for number, sequence, copy in report["rows"]:
            rows_by_producer[number].append((sequence, copy))
        for producer in self.producers:
            rows = rows_by_producer[producer.number]
            batches = 1 + rows[-1][0] if rows else 0
            expected = [(sequence, copy) for sequence in range(batches) for copy in range(batch_rows(sequence))]
            assert rows == expected, f"{producer.name}: {rows}"
            if is_closed or producer.is_durable:
                assert producer.last_acknowledged < batches, (
                    f"{producer.name}: {producer.last_acknowledged} acknowledged, {batches} there"
                )
        self.counts["rows"] += len(report["rows"])


def get_status(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="that of the first round")
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="arrowwood-serve-volume-", dir=memory)
    try:
        play_rounds(args.seed, args.rounds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play_rounds(first_seed: int, rounds: int, folder: str):
    """Plays rounds on a volume in ``folder``, and prints the counts of losses and batches."""
    try:
        own_mounts()
        volume = Volume(folder)
    except (Refused, OSError) as error:
        print(f"left out: {error}")
        return
    counts = Counter()
    try:
        for seed in range(first_seed, first_seed + rounds):
            game = Game(volume, seed)
            try:
                game.play()
            except BaseException:
                # Also printed on Ctrl-C, so that the round can be played again.
                print(f"seed {seed}, {game.loss}")
                raise
            counts[game.loss] += 1
            counts += game.counts
            volume.clean()
    finally:
        volume.close()
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
