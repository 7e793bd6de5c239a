"""Makes a wheel of the Python package around a library that cargo has already built: `wheel.py LIBRARY FOLDER`.

Its metadata are those that maturin, the package's build backend, would write. `make test` installs this wheel, so that
the library is compiled once for the tests in all languages. What users get is built by maturin itself (`make wheel`).
"""

import base64
import contextlib
import hashlib
import os
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import maturin

ROOT = Path(__file__).resolve().parent.parent


def make_wheel(library: Path, folder: Path) -> Path:
    """Writes the wheel into `folder` and returns its path."""
    os.chdir(ROOT)
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["maturin"]
    source = Path(settings["python-source"])
    package, module = settings["module-name"].split(".")
    with tempfile.TemporaryDirectory() as metadata:
        # Its output is not ours: whoever runs this reads the path.
        with contextlib.redirect_stdout(sys.stderr):
            info = Path(metadata) / maturin.prepare_metadata_for_build_wheel(metadata)
        contents = {f"{info.name}/{path.relative_to(info)}": path.read_bytes() for path in files(info)}
    # The stem has the version, and the tag says which Pythons and machines it is for.
    stem = info.name.removesuffix(".dist-info")
    tag = next(
        line.removeprefix("Tag: ")
        for line in contents[f"{info.name}/WHEEL"].decode().splitlines()
        if line.startswith("Tag: ")
    )
    for path in files(source / package):
        if path.suffix not in (".so", ".pyc"):
            contents[str(path.relative_to(source))] = path.read_bytes()
    contents[f"{package}/{module}.abi3.so"] = library.read_bytes()
    contents[f"{info.name}/RECORD"] = record(contents, info.name)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return wheel


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def record(contents: dict[str, bytes], info: str) -> bytes:
    """Returns the list of all files with their hashes and sizes, as the format of wheels asks for."""

    def line(name: str, data: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(data)}"

    lines = [line(name, data) for name, data in contents.items()] + [f"{info}/RECORD,,"]
    return "\n".join(lines).encode() + b"\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: wheel.py LIBRARY FOLDER")
    print(make_wheel(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
