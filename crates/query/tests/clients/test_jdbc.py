"""Tests of Flight SQL with the driver of JDBC. ARROWWOOD_JDBC is the path of the driver's jar
(org.apache.arrow:flight-sql-jdbc-driver)."""

import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import Server, run
from waits import PATIENCE

JAR = os.environ.get("ARROWWOOD_JDBC", "")
pytestmark = [
    pytest.mark.skipif(not pathlib.Path(JAR).is_file(), reason="ARROWWOOD_JDBC names no jar of flight-sql-jdbc-driver"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java"),
]

# The output of Probe.java for the tables of the fixture.
EXPECTED = {
    "product": 'Arrowwood with DataFusion, quoted by "',
    "read-only": "true",
    "search escape": "\\",
    "transactions": "false",
    "catalogs": "arrowwood",
    "schemas": "public,arrowwood",
    "table types": "TABLE",
    "tables": "grown | names.arrow | ticks.arrow",
    "columns": "ts,-5 | symbol,12 | price,8 | day,91",
    "primary keys": "",
    "grouped": "AAPL,334,249.0 | IBM,333,249.25 | MSFT,333,249.5",
    "dates": "1970-01-01,null | 1970-01-02,27.5",
    "refused": "true",
    "parameters": "3",
    "prepared 4": "",
    "prepared 8": "4,IBM | 7,IBM",
}


def run_probe(server, *properties):
    """Run Probe.java with properties of the connection, and return its output by names."""
    probe = pathlib.Path(__file__).with_name("Probe.java")
    url = f"jdbc:arrow-flight-sql://127.0.0.1:{server.port}"
    command = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", JAR, str(probe), url, *properties]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    output = {}
    for line in result.stdout.splitlines():
        name, _, value = line.partition(":")
        output[name] = value.removeprefix(" ")
    return output


def test_metadata_statements_and_parameters(server):
    assert run_probe(server) == EXPECTED


@pytest.mark.parametrize("properties", [("token", "{}"), ("user", "any", "password", "{}")])
def test_token_is_accepted_as_bearer_and_as_password(folder, tmp_path, properties):
    tokens = tmp_path / "tokens"
    output = run("token", "add", "reader", "--token-file", tokens, "--read", "*")
    token = output.strip().splitlines()[-1].split()[-1]
    server = Server(folder, "--token-file", tokens)
    properties = [value.format(token) for value in properties]
    assert run_probe(server, *properties)["tables"] == EXPECTED["tables"]
    server.stop()
