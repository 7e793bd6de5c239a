"""Tests a server, producers, followers and a replica on separate hosts with a bad network between them.

The hosts are network namespaces: a server, clients, and a proxy between them that delays data and breaks connections.
The test also takes the network down for a while. It needs root and `ip`; ``ARROWWOOD_HOSTS_BATCHES`` sets its length.
"""

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
ROWS_PER_BATCH = 3  # in PRODUCER
TIMEOUT = PATIENCE + BATCHES
PORT = 7447
COMMAND = [sys.executable, "-m", "arrowwood._cli"]

PROXY_SEED = 20
MAX_DELAY_SECONDS = 0.01
# The probability that the proxy breaks a connection in the middle of a chunk.
BREAK_PROBABILITY = 0.02

# Begins the programs of the clients. They retry until the server accepts them; after that, the library retries.
CONNECT = """
import sys, arrowwood as aw
from waits import PATIENCE, wait_until

def retry_until_connected(connect):
    def try_connect():
        try:
            return connect()
        except aw.IoError:
            return None
    return wait_until(try_connect, "the server is in reach")

table = aw.connect(sys.argv[1], timeout=30)["t"]
"""
PRODUCER = (
    CONNECT
    + """
name, batches = sys.argv[2], int(sys.argv[3])
with retry_until_connected(lambda: table.writer(name, retry=PATIENCE)) as writer:
    for n in range(writer.sequence, batches):
        writer.append({"producer": [name] * 3, "n": [3 * n, 3 * n + 1, 3 * n + 2]})
        writer.commit()
"""
)
FOLLOWER = (
    CONNECT
    + """
rows, is_durable = int(sys.argv[2]), len(sys.argv) > 3
with retry_until_connected(lambda: table.follow(0, durable=is_durable)) as batches:
    while batches.next_row < rows:
        for row in next(batches).to_pylist():
            print(row["producer"], row["n"])
"""
)


class Proxy:
    """Forwards connections to a server, with delays, and breaks some of them in the middle of a chunk."""

    def __init__(self, target, port, seed):
        self.target = target
        self.port = port
        self.rng = random.Random(seed)

    async def serve(self):
        async with await asyncio.start_server(self.forward, "0.0.0.0", self.port) as server:
            await server.serve_forever()

    async def forward(self, client_reader, client_writer):
        try:
            server_reader, server_writer = await asyncio.open_connection(self.target, self.port)
        except OSError:
            client_writer.close()
            return
        await asyncio.gather(self.pump(client_reader, server_writer), self.pump(server_reader, client_writer))

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(1 << 14):
                # This sleep simulates latency; it waits for no condition.
                await asyncio.sleep(self.rng.uniform(0, MAX_DELAY_SECONDS))
                if self.rng.random() < BREAK_PROBABILITY:
                    writer.write(data[: len(data) // 2])
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # The other side has closed the connection.
        writer.close()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Network namespaces called `server`, `proxy` and `client`, with a virtual cable between each and the next."""

    def __init__(self):
        self.namespaces = {host: f"aw{os.getpid()}{host}" for host in ("server", "proxy", "client")}
        self.processes = []

    def create(self):
        for namespace in self.namespaces.values():
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        self.connect("server", "proxy", network=0)
        self.connect("proxy", "client", network=1)

    def connect(self, left, right, network):
        """Connects two hosts with the addresses 10.77.`network`.1 and 10.77.`network`.2."""
        left, right = self.namespaces[left], self.namespaces[right]
        left_device, right_device = f"aw{network}a", f"aw{network}b"
        ip("-n", left, "link", "add", left_device, "type", "veth", "peer", "name", right_device, "netns", right)
        for namespace, device, number in ((left, left_device, 1), (right, right_device, 2)):
            ip("-n", namespace, "address", "add", f"10.77.{network}.{number}/24", "dev", device)
            ip("-n", namespace, "link", "set", device, "up")

    def start(self, host, *command, **options):
        """Starts a command on a host; it can import the modules of this folder."""
        command = ["ip", "netns", "exec", self.namespaces[host], *map(str, command)]
        environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
        process = subprocess.Popen(command, text=True, env=environment, **options)
        self.processes.append(process)
        return process

    def interrupt_clients(self, seconds):
        """Takes the clients' network down for some seconds."""
        ip("-n", self.namespaces["proxy"], "link", "set", "aw1a", "down")
        # This sleep is the length of the outage; it waits for no condition.
        time.sleep(seconds)
        ip("-n", self.namespaces["proxy"], "link", "set", "aw1a", "up")

    def remove(self):
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE)
        for namespace in self.namespaces.values():
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


@pytest.fixture
def hosts():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and `ip` of iproute2")
    hosts = Hosts()
    try:
        try:
            hosts.create()
        except subprocess.CalledProcessError as e:
            pytest.skip(f"no network namespaces here: {e.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()


def read_output(process, name):
    """Waits until a process has succeeded, and returns its output."""
    output, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, f"{name}: {errors}"
    return output


def test_followers_and_a_replica_get_all_rows_over_a_bad_network(hosts, tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy"
    data.mkdir()
    aw.writer(data / "t", "producer: category, n: int not null").close()

    # Start the server and the proxy, and wait until a client reaches the server.
    serve = [*COMMAND, "serve", data, "--listen", f"10.77.0.1:{PORT}", "--insecure"]
    server = hosts.start("server", *serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout.readline().strip() == f"http://10.77.0.1:{PORT}"
    hosts.start("proxy", sys.executable, __file__, "10.77.0.1", PORT)
    url = f"http://10.77.1.1:{PORT}"
    list_tables = [sys.executable, "-c", f"import arrowwood as aw; aw.connect({url!r}).tables()"]
    wait_until(
        lambda: hosts.start("client", *list_tables, stderr=subprocess.DEVNULL).wait(PATIENCE) == 0, "the proxy is there"
    )

    # Produce rows, and interrupt the network twice meanwhile.
    producer_names = ["s0", "s1", "s2"]
    rows = ROWS_PER_BATCH * BATCHES * len(producer_names)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    followers = [
        hosts.start("client", sys.executable, "-c", FOLLOWER, url, rows, *options, **pipes)
        for options in ([], ["durable"])
    ]
    replica = hosts.start("client", *COMMAND, "pull", "--follow", f"{url}/t", copy, stderr=subprocess.DEVNULL)
    producers = [
        hosts.start("client", sys.executable, "-c", PRODUCER, url, name, BATCHES, **pipes) for name in producer_names
    ]
    for seconds, part in ((0.3, 1 / 6), (1.0, 1 / 2)):
        wait_until(lambda: count_rows(data / "t") >= part * rows, f"the producers have sent {part:.0%}")
        hosts.interrupt_clients(seconds)
    for producer in producers:
        read_output(producer, "a producer")

    # Each batch arrived once, complete and in its producer's order; followers and replica have the same rows.
    table = aw.open(data / "t").to_pylist()
    for name in producer_names:
        assert [row["n"] for row in table if row["producer"] == name] == list(range(ROWS_PER_BATCH * BATCHES))
    expected = [f"{row['producer']} {row['n']}" for row in table]
    for follower in followers:
        assert read_output(follower, "a follower").splitlines() == expected
    wait_until(lambda: count_rows(copy) == rows or replica.poll() is not None, "the replica has all rows")
    assert aw.open(copy).to_pylist() == table


if __name__ == "__main__":
    asyncio.run(Proxy(sys.argv[1], int(sys.argv[2]), PROXY_SEED).serve())
