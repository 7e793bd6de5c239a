"""Python for Windows with the packages that tests need, to be run under wine.

Maven has a CPython for Windows, without the library for extensions of any version (`python3.dll`): mingw makes one that
forwards to that of its version. Of packages, those versions are taken that call no function which wine 8 lacks.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CPYTHON = "org.bytedeco:cpython:3.11.3-1.5.9:jar:windows-x86_64"
FOLDER_IN_JAR = "org/bytedeco/cpython/windows-x86_64/"
VERSION, PLATFORM = "3.11", "win_amd64"
# NumPy 2.2 calls `crealf`.
PACKAGES = [
    "numpy==2.1.3",
    "pandas",
    "pyarrow",
    "polars>=2.1",
    "duckdb>=2.0",
    "dask[dataframe]",
    "vega_datasets",
    "pytest",
    "pytest-timeout",
    "hypothesis",
    "colorama",
]
MINGW = "x86_64-w64-mingw32-"


def install(folder):
    """Installs Python and packages into a folder, if they are not there. Returns the path of the interpreter."""
    home = folder / "python"
    python = home / "python.exe"
    is_ready = home / "ready"
    if not is_ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        unpack(home)
        forward_stable_interface(home)
        source = HERE / "process_prng.c"
        link(home / "bcryptprimitives.dll", [source, "-O1", "-Wall", "-Werror", "-ladvapi32"])
        pip_install(home, PACKAGES)
        is_ready.touch()
    return python


def unpack(home):
    """Unpacks CPython."""
    if shutil.which("mvn") is None:
        raise SystemExit("please install: apt-get install maven")
    words = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={CPYTHON}", f"-DoutputDirectory={home}"]
    subprocess.run(words, cwd=home.parent, check=True)
    [jar] = home.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.infolist():
            name = entry.filename.removeprefix(FOLDER_IN_JAR)
            if name == entry.filename or entry.is_dir() or name.startswith("lib/test/"):
                continue
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(entry))
    jar.unlink()


def forward_stable_interface(home):
    """Makes the library of Python's stable interface, whose names its import library has."""
    words = [f"{MINGW}nm", home / "libs/python3.lib"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r" __imp_(\w+)$", printed, re.M))
    functions = set(re.findall(r" T (\w+)$", printed, re.M))
    library = f"python{VERSION.replace('.', '')}"
    lines = [f"{name}={library}.{name}{'' if name in functions else ' DATA'}" for name in sorted(names)]
    definition = home / "python3.def"
    definition.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *lines, ""]))
    link(home / "python3.dll", [definition, "-nostdlib", "-Wl,--entry=0"])


def link(library, words):
    subprocess.run([f"{MINGW}gcc", "-shared", *words, "-o", library], check=True)


def pip_install(home, packages, *options):
    """Installs packages for Windows."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-warn-conflicts", *options]
    words += ["--target", home / "lib/site-packages", "--only-binary=:all:"]
    words += ["--platform", PLATFORM, "--python-version", VERSION]
    subprocess.run([*words, *packages], check=True)


def install_wheel(home, library, folder):
    """Makes the wheel of a library that cargo has built, and installs it."""
    words = [sys.executable, ROOT / "packaging/wheel.py", library, folder, PLATFORM]
    made = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    pip_install(home, [made.stdout.strip()], "--no-deps")
