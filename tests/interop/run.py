"""Tests that other Arrow libraries read what Arrowwood writes, and the other way round: `make interop`.

The library's example `samples` writes every type and some unusual tables, each as file and stream, plain, compressed
with lz4 and zstd, and made of slices. It also writes `expected.json` with the values. Each reader is a command that
prints a line of JSON per file, with values spelled as the example defines. A reader whose toolchain is missing is left
out with a line that says so.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import clients

HERE = Path(__file__).resolve().parent

NO_SMALL_DECIMALS = "only supports 128-bit and 256-bit decimal"
NO_RUNS = 'Unrecognized type: "RunEndEncoded"'
# Types that a reader doesn't support, with a part of its error. An entry that is no longer true is a failure too.
NOT_SUPPORTED = {
    ("pyarrow", "interval[year_month]"): "KeyError: 21",
    ("pyarrow", "interval[day_time]"): "KeyError: 22",
    ("java", "decimal32(9, 2)"): NO_SMALL_DECIMALS,
    ("java", "decimal64(18, 2)"): NO_SMALL_DECIMALS,
    ("js", "list_view<int32>"): 'Unrecognized type: "ListView"',
    ("js", "large_list_view<int32>"): 'Unrecognized type: "LargeListView"',
    ("js", "run_end_encoded<int32, utf8>"): NO_RUNS,
    ("js", "runs that go over a cut"): NO_RUNS,
    ("js", "runs of a dictionary"): NO_RUNS,
    ("js", "list of runs"): NO_RUNS,
}

# The rows that each library writes, in two batches.
LIBRARY_ROWS = [
    ["1", str(2**53 + 1), 0.5, "a", "x", ["1", "2"], True],
    [None] * 7,
    ["-3", "-1", -1.5, "ünï", "y", [], False],
]


class MissingToolchain(Exception):
    """A reader can't be built because its toolchain or library isn't installed."""


class Remark(NamedTuple):
    """An explanation of a cell of the matrix that is not "ok"."""

    cell: str
    reader: str
    sample: str
    text: str


def run(*command: str, cwd: Path | None = None) -> str:
    """Runs a command and returns its output."""
    if shutil.which(command[0]) is None:
        raise MissingToolchain(f"no {Path(command[0]).name} here")
    process = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{process.stdout[-2000:]}{process.stderr[-2000:]}")
    return process.stdout


# Each function builds a reader in a folder. It returns a command that takes `read FOLDER` or `write FOLDER`, and the
# version of the Arrow library that the reader uses.


def make_pyarrow(_folder: Path) -> tuple[list[str], str]:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingToolchain("no pyarrow here")
    return [sys.executable, str(HERE / "interop.py")], importlib.metadata.version("pyarrow")


def make_go(folder: Path) -> tuple[list[str], str]:
    program = str(folder / "interop-go")
    run("go", "build", "-o", program, ".", cwd=HERE / "go")
    required = next(line for line in (HERE / "go/go.mod").read_text().splitlines() if "arrow-go" in line)
    return [program], required.removeprefix("require").split()[1].removeprefix("v")


def make_java(_folder: Path) -> tuple[list[str], str]:
    if shutil.which("javac") is None:
        raise MissingToolchain("no javac here")
    run("mvn", "-q", "-B", "process-classes", cwd=HERE / "java")
    target = HERE / "java/target"
    # Arrow Java accesses java.nio by reflection.
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    version = (HERE / "java/pom.xml").read_text().partition("<arrow.version>")[2].partition("<")[0]
    return ["java", opens, "-cp", f"{target}/classes:{target}/dependency/*", "Interop"], version


def make_js(_folder: Path) -> tuple[list[str], str]:
    if shutil.which("node") is None:
        raise MissingToolchain("no node here")
    run("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=HERE)
    version = json.loads((HERE / "package.json").read_text())["dependencies"]["apache-arrow"]
    return ["node", str(HERE / "interop.mjs")], version


MAKERS = {"pyarrow": make_pyarrow, "go": make_go, "java": make_java, "js": make_js}


def build_readers(folder: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Builds all readers that can be built here. Returns their commands and versions."""
    commands, versions = {}, {}
    for name, build in MAKERS.items():
        try:
            commands[name], versions[name] = build(folder)
        except MissingToolchain as e:
            print(f"{name}: left out, {e}")
    return commands, versions


def read_files(command: list[str], folder: Path) -> dict[str, dict]:
    """Reads all files of a folder with a reader. Returns its answer for each file."""
    answers = [json.loads(line) for line in run(*command, "read", str(folder)).splitlines()]
    return {answer["file"]: answer for answer in answers}


def find_difference(answer: dict, expected_rows: list) -> str:
    """Returns how an answer differs from the expected rows, or ''."""
    if "error" in answer:
        return f"error: {answer['error']}"
    if len(answer["rows"]) != len(expected_rows):
        return f"wrong: {len(answer['rows'])} rows instead of {len(expected_rows)}"
    for actual, expected in zip(answer["rows"], expected_rows):
        if actual != expected:
            return f"wrong: {actual} instead of {expected}"
    return ""


def classify(reader: str, sample: str, differences: dict[str, str]) -> str:
    """Returns the cell of the matrix for a reader and a sample. `differences` has one entry for each file."""
    known_error = NOT_SUPPORTED.get((reader, sample))
    if known_error is not None:
        is_true = all(text.startswith("error: ") and known_error in text for text in differences.values())
        return "not supported" if is_true else "LISTED WRONGLY"
    if not any(differences.values()):
        return "ok"
    return "WRONG" if any(text.startswith("wrong") for text in differences.values()) else "FAILED"


def read_samples(readers: dict[str, list[str]], folder: Path) -> tuple[dict[str, dict[str, str]], list[Remark]]:
    """Reads the samples with all readers. Returns the cells by sample and reader, and remarks on cells."""
    files_of_samples: dict[str, dict[str, dict]] = {}
    for name, file in json.loads((folder / "expected.json").read_text()).items():
        files_of_samples.setdefault(file["sample"], {})[name] = file
    matrix: dict[str, dict[str, str]] = {sample: {} for sample in files_of_samples}
    remarks = []
    no_answer = {"error": "the reader said nothing of it"}
    for reader, command in readers.items():
        answers = read_files(command, folder)
        for sample, files in files_of_samples.items():
            differences = {
                name: find_difference(answers.get(name, no_answer), file["rows"]) for name, file in files.items()
            }
            cell = classify(reader, sample, differences)
            matrix[sample][reader] = cell
            if cell != "ok":
                remarks += explain_cell(reader, sample, cell, differences)
    return matrix, remarks


def explain_cell(reader: str, sample: str, cell: str, differences: dict[str, str]) -> list[Remark]:
    """Returns one remark for an entry of NOT_SUPPORTED, and otherwise one for each file that differs."""
    if cell == "not supported":
        return [Remark(cell, reader, sample, min(differences.values()).removeprefix("error: "))]
    if cell == "LISTED WRONGLY":
        return [Remark(cell, reader, sample, max(differences.values()) or "read right")]
    return [Remark(cell, reader, f"{sample}, {name}", text[:300]) for name, text in differences.items() if text]


def read_library_files(readers: dict[str, list[str]], arrowwood: list[str], folder: Path) -> dict[str, str]:
    """Lets each library write files, and reads them with Arrowwood. Returns the difference, or '', for each file."""
    folder.mkdir(exist_ok=True)
    for command in readers.values():
        run(*command, "write", str(folder))
    answers = read_files(arrowwood, folder)
    return {name: find_difference(answer, LIBRARY_ROWS) for name, answer in answers.items()}


def check_shared_memory(readers: dict[str, list[str]], arrowwood: list[str]) -> list[str]:
    """Exchanges streams in /dev/shm between processes, in both directions. Returns what went wrong.

    Each reader reads a stream that Python writes, and Arrowwood opens the streams of each library in place.
    """
    if importlib.util.find_spec("arrowwood") is None or not Path("/dev/shm").is_dir():
        print("shared memory: left out, no arrowwood for Python, or no /dev/shm")
        return []
    import arrowwood as aw

    numbers = list(range(3000))
    expected_rows = [[str(n), f"row {n}"] for n in numbers]
    problems = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        python_folder, library_folder = Path(folder, "ours"), Path(folder, "theirs")
        python_folder.mkdir()
        rows = {"n": numbers, "text": [f"row {n}" for n in numbers]}
        aw.write(rows, python_folder / "rows.stream", format="stream", max_rows=1000)
        for name, command in readers.items():
            difference = find_difference(read_files(command, python_folder)["rows.stream"], expected_rows)
            if difference:
                problems.append(f"a stream in shared memory, read by {name}: {difference}")
        for file, difference in read_library_files(readers, arrowwood, library_folder).items():
            copied = aw.open(library_folder / file).footprint.copied
            if difference:
                problems.append(f"shared memory, {file}: {difference}")
            elif copied:
                problems.append(f"shared memory, {file}: {copied} bytes were copied")
    return problems


INTRODUCTION = """# Read by other Arrow libraries

`make interop` lets other Arrow libraries read what Arrowwood writes: each type, and tables that are awkward in another
way. *ok*: every value was read right, from file and stream, plain, lz4, zstd, and put together from slices.
"""


def list_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def format_page(
    matrix: dict[str, dict[str, str]], remarks: list[Remark], written: dict[str, str], versions: dict[str, str]
) -> str:
    lines = [INTRODUCTION, "| | " + " | ".join(f"{name} {version}" for name, version in versions.items()) + " |"]
    lines.append("|---" * (len(versions) + 1) + "|")
    samples_by_cells: dict[tuple[str, ...], list[str]] = {}
    for sample, cells in matrix.items():
        samples_by_cells.setdefault(tuple(cells.values()), []).append(sample)
    exceptions_first = sorted(samples_by_cells.items(), key=lambda item: set(item[0]) == {"ok"})
    lines += [f"| {list_names(samples)} | " + " | ".join(cells) + " |" for cells, samples in exceptions_first]
    lines += ["", "The errors for what is not supported:", ""]
    samples_by_error: dict[tuple[str, str], list[str]] = {}
    for remark in remarks:
        if remark.cell == "not supported":
            samples_by_error.setdefault((remark.reader, remark.text), []).append(remark.sample)
    lines += [f"- {reader}, {list_names(samples)}: {text}" for (reader, text), samples in samples_by_error.items()]
    correct_files = list_names([name for name, difference in written.items() if not difference])
    lines += ["", f"Arrowwood reads what the others write: {correct_files}.", ""]
    return "\n".join(lines)


def list_failures(readers: dict[str, list[str]], remarks: list[Remark], written: dict[str, str]) -> list[str]:
    failures = [
        f"{remark.cell}: {remark.reader}, {remark.sample}: {remark.text}"
        for remark in remarks
        if remark.cell != "not supported"
    ]
    failures += [f"written by another library, {name}: {text}" for name, text in written.items() if text]
    expected_files = {f"{name}.{ending}" for name in readers for ending in ("arrow", "stream")}
    missing_files = sorted(expected_files - set(written))
    return failures + [f"written by another library, {name}: missing" for name in missing_files]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, required=True, help="the built program examples/samples")
    parser.add_argument("--command", type=Path, required=True, help="the built command arrowwood")
    parser.add_argument("--folder", type=Path, required=True, help="for what is made")
    parser.add_argument("--markdown", type=Path, help="a page to write the matrix to")
    return parser.parse_args()


def main():
    options = parse_arguments()
    samples, folder = [str(options.samples.resolve())], options.folder.resolve()
    for name in ("samples", "written"):
        shutil.rmtree(folder / name, ignore_errors=True)
    run(*samples, "write", str(folder / "samples"))
    readers, versions = build_readers(folder)
    matrix, remarks = read_samples(readers, folder / "samples")
    written = read_library_files(readers, samples, folder / "written")
    go_client = clients.GoClient(readers["go"][0], versions["go"]) if "go" in readers else None
    client_results, client_versions = clients.run_clients(str(options.command.resolve()), go_client)

    page = format_page(matrix, remarks, written, versions) + clients.format_section(client_results, client_versions)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    failures = list_failures(readers, remarks, written) + clients.list_failures(client_results)
    failures += check_shared_memory(readers, samples)
    print("\n".join(failures) or f"{len(readers)} readers, {len(matrix)} samples: nothing wrong")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
