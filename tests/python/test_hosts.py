"""Three hosts as network namespaces: a server, one that passes connections on, late and not always whole, and one with
producers, followers and a replica. In between the cable is pulled. Needs root and `ip`; ``ARROWWOOD_HOSTS_BATCHES``
makes it longer."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

import arrowwood as aw
from conftest import count_rows
from waits import PATIENCE, wait_until

BATCHES = int(os.environ.get("ARROWWOOD_HOSTS_BATCHES", "60"))
TIMEOUT = PATIENCE + BATCHES
PORT = 7447
COMMAND = [sys.executable, "-m", "arrowwood._cli"]

# Runs on the clients' host. Opening is retried until it succeeds; following then needs no more retries.
OPEN = """
import sys, arrowwood as aw
from waits import PATIENCE, wait_until

def opened(begin):
    def attempt():
        try:
            return begin()
        except aw.IoError:
            return None
    return wait_until(attempt, "the server is in reach")

table = aw.connect(sys.argv[1], timeout=30)["t"]
"""
PRODUCER = (
    OPEN
    + """
name, batches = sys.argv[2], int(sys.argv[3])
with opened(lambda: table.writer(name, retry=PATIENCE)) as writer:
    for n in range(writer.sequence, batches):
        writer.append({"producer": [name] * 3, "n": [3 * n, 3 * n + 1, 3 * n + 2]})
        writer.commit()
"""
)
FOLLOWER = (
    OPEN
    + """
rows, is_durable = int(sys.argv[2]), len(sys.argv) > 3
with opened(lambda: table.follow(0, durable=is_durable)) as coming:
    while coming.next_row < rows:
        for row in next(coming).to_pylist():
            print(row["producer"], row["n"])
"""
)


async def pass_on(port, target, seed):
    """A proxy that delays what it passes on, and breaks connections in the middle of it."""
    chance = random.Random(seed)

    async def pump(reader, writer):
        try:
            while data := await reader.read(1 << 14):
                # No wait for anything: this is how slow the network is.
                await asyncio.sleep(chance.uniform(0, 0.01))
                if chance.random() < 0.02:
                    writer.write(data[: len(data) // 2])
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    async def connected(reader, writer):
        try:
            there = await asyncio.open_connection(target, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    async with await asyncio.start_server(connected, "0.0.0.0", port) as server:
        await server.serve_forever()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Namespaces called `server`, `proxy` and `client`, with a cable between each and the next."""

    def __init__(self):
        self.names = {host: f"aw{os.getpid()}{host}" for host in ("server", "proxy", "client")}
        self.running = []

    def lay_cables(self):
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for number, (one, other) in enumerate([("server", "proxy"), ("proxy", "client")]):
            ends = [(one, f"aw{number}a", f"10.77.{number}.1/24"), (other, f"aw{number}b", f"10.77.{number}.2/24")]
            first, second = (self.names[host] for host, _, _ in ends)
            ip("-n", first, "link", "add", ends[0][1], "type", "veth", "peer", "name", ends[1][1], "netns", second)
            for host, cable, address in ends:
                ip("-n", self.names[host], "address", "add", address, "dev", cable)
                ip("-n", self.names[host], "link", "set", cable, "up")

    def start(self, host, *command, **options):
        command = ["ip", "netns", "exec", self.names[host], *map(str, command)]
        process = subprocess.Popen(
            command, text=True, env=os.environ | {"PYTHONPATH": os.path.dirname(__file__)}, **options
        )
        self.running.append(process)
        return process

    def pull_cable(self, seconds):
        ip("-n", self.names["proxy"], "link", "set", "aw1a", "down")
        # No wait for anything: this is how long the network is away.
        time.sleep(seconds)
        ip("-n", self.names["proxy"], "link", "set", "aw1a", "up")

    def remove(self):
        for process in self.running:
            process.kill()
            process.wait(PATIENCE)
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def hosts():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and `ip` of iproute2")
    hosts = Hosts()
    try:
        try:
            hosts.lay_cables()
        except subprocess.CalledProcessError as problem:
            pytest.skip(f"no network namespaces here: {problem.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()


def ended(process, what):
    out, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, f"{what}: {errors}"
    return out


def test_followers_and_a_replica_come_out_right_over_a_bad_network(hosts, tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy"
    data.mkdir()
    aw.writer(data / "t", "producer: category, n: int not null").close()
    server = hosts.start(
        "server",
        *COMMAND,
        "serve",
        data,
        "--listen",
        f"10.77.0.1:{PORT}",
        "--insecure",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout.readline().strip() == f"http://10.77.0.1:{PORT}"
    hosts.start("proxy", sys.executable, __file__, "10.77.0.1", PORT)
    url, names = f"http://10.77.1.1:{PORT}", ["s0", "s1", "s2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # The proxy listens a moment later.
    look = [sys.executable, "-c", f"import arrowwood as aw; aw.connect({url!r}).tables()"]
    wait_until(
        lambda: hosts.start("client", *look, stderr=subprocess.DEVNULL).wait(PATIENCE) == 0, "the proxy is there"
    )
    rows = 3 * BATCHES * len(names)
    followers = [
        hosts.start("client", sys.executable, "-c", FOLLOWER, url, rows, *more, **pipes) for more in ([], ["durable"])
    ]
    replica = hosts.start("client", *COMMAND, "pull", "--follow", f"{url}/t", copy, stderr=subprocess.DEVNULL)
    producers = [hosts.start("client", sys.executable, "-c", PRODUCER, url, name, BATCHES, **pipes) for name in names]
    for seconds, part in ((0.3, 1 / 6), (1.0, 1 / 2)):
        wait_until(lambda: count_rows(data / "t") >= part * rows, f"the producers have sent {part:.0%}")
        hosts.pull_cable(seconds)
    for producer in producers:
        ended(producer, "a producer")
    table = aw.open(data / "t").to_pylist()
    # Each batch arrives once and whole, and in its producer's order.
    for name in names:
        assert [row["n"] for row in table if row["producer"] == name] == list(range(3 * BATCHES))
    expected = [f"{row['producer']} {row['n']}" for row in table]
    for follower in followers:
        assert ended(follower, "a follower").splitlines() == expected
    wait_until(lambda: count_rows(copy) == rows or replica.poll() is not None, "the replica has all rows")
    assert aw.open(copy).to_pylist() == table


if __name__ == "__main__":
    asyncio.run(pass_on(int(sys.argv[2]), sys.argv[1], 20))
