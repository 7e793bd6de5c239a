"""Makes a wheel of the Python package with a library that cargo has already built.

    wheel.py LIBRARY FOLDER [PLATFORM]

maturin, the package's build backend, writes the metadata. `make test` installs this wheel, so that the library is
compiled once for the tests in all languages; wheels for users are built by maturin itself (`make wheel`). PLATFORM is
that of the wheel's tag, by default this one.
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


def make_wheel(library: Path, folder: Path, platform: str | None) -> Path:
    """Writes the wheel into `folder` and returns its path."""
    os.chdir(ROOT)
    # The module calls the program of its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["maturin"]
    source = Path(settings["python-source"])
    package, module = settings["module-name"].split(".")
    with tempfile.TemporaryDirectory() as metadata:
        # Standard output is for the path of the wheel.
        with contextlib.redirect_stdout(sys.stderr):
            info = Path(metadata) / maturin.prepare_metadata_for_build_wheel(metadata)
        contents = {f"{info.name}/{path.relative_to(info)}": path.read_bytes() for path in list_files(info)}
    name_and_version = info.name.removesuffix(".dist-info")
    tag = read_tag(contents[f"{info.name}/WHEEL"])
    if platform is not None:
        other = f"{tag.rsplit('-', 1)[0]}-{platform}"
        contents[f"{info.name}/WHEEL"] = contents[f"{info.name}/WHEEL"].replace(tag.encode(), other.encode())
        tag = other
    for path in list_files(source / package):
        if path.suffix not in (".so", ".pyd", ".pyc"):
            contents[str(path.relative_to(source))] = path.read_bytes()
    suffix = ".pyd" if library.suffix == ".dll" else ".abi3.so"
    contents[f"{package}/{module}{suffix}"] = library.read_bytes()
    contents[f"{info.name}/RECORD"] = format_record(contents, info.name)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name_and_version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return wheel


def list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_tag(metadata: bytes) -> str:
    """Returns the compatibility tag, the Pythons and platforms of a wheel, from its file WHEEL."""
    for line in metadata.decode().splitlines():
        if line.startswith("Tag: "):
            return line.removeprefix("Tag: ")
    raise ValueError("the file WHEEL has no tag")


def format_record(contents: dict[str, bytes], info: str) -> bytes:
    """Returns the file RECORD: all files of a wheel with their hashes and sizes, and itself without them."""
    lines = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    lines.append(f"{info}/RECORD,,")
    return "\n".join(lines).encode() + b"\n"


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: wheel.py LIBRARY FOLDER [PLATFORM]")
    print(make_wheel(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), (sys.argv[3:] or [None])[0]))
