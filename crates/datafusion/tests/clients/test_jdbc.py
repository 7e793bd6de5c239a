"""Flight SQL as JDBC's driver speaks it. ARROWWOOD_JDBC is the driver's jar
(org.apache.arrow:flight-sql-jdbc-driver)."""

import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import Served, run
from waits import PATIENCE

JAR = os.environ.get("ARROWWOOD_JDBC", "")
pytestmark = [
    pytest.mark.skipif(not pathlib.Path(JAR).is_file(), reason="ARROWWOOD_JDBC names no jar of flight-sql-jdbc-driver"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java"),
]

TICKS = {
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


def probe(served, *properties):
    command = [
        "java",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "-cp",
        JAR,
        str(pathlib.Path(__file__).with_name("Probe.java")),
    ]
    url = f"jdbc:arrow-flight-sql://127.0.0.1:{served.port}"
    done = subprocess.run([*command, url, *properties], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in done.stdout.splitlines())


def test_what_jdbc_sees(served):
    told = probe(served)
    assert told == TICKS


@pytest.mark.parametrize("properties", [("token", "{}"), ("user", "any", "password", "{}")])
def test_a_token_is_a_bearer_or_a_password(folder, tmp_path, properties):
    tokens = tmp_path / "tokens"
    token = run("token", "add", "reader", "--token-file", tokens, "--read", "*").strip().splitlines()[-1].split()[-1]
    served = Served(folder, "--token-file", tokens)
    assert probe(served, *(value.format(token) for value in properties))["tables"] == TICKS["tables"]
    served.stop()
