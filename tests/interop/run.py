"""Whether stock readers read what Arrowwood writes, with the right values, and Arrowwood what other languages write:
`make interop`.

`examples/samples` writes every type and some awkward tables, each as file and stream, plain, lz4, zstd and put together
from slices, and beside them `expected.json`. Each reader is a command that prints a line of JSON per file, in the
spelling that the example defines. One whose toolchain is missing is left out, with a line that says so.
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

import clients

HERE = Path(__file__).resolve().parent

NO_SMALL_DECIMALS = "only supports 128-bit and 256-bit decimal"
NO_RUNS = 'Unrecognized type: "RunEndEncoded"'
# What a reader does not know, and a part of what it says then. An entry that is no longer true is a failure as well.
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

# What each language writes, in two batches.
WRITTEN = [
    ["1", str(2**53 + 1), 0.5, "a", "x", ["1", "2"], True],
    [None] * 7,
    ["-3", "-1", -1.5, "ünï", "y", [], False],
]


class Absent(Exception):
    """A toolchain that is not here."""


def run(*command, cwd=None):
    if shutil.which(command[0]) is None:
        raise Absent(f"no {Path(command[0]).name} here")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# Each makes a command that takes `read FOLDER` or `write FOLDER`, and the version of the Arrow library it uses.


def make_pyarrow(_):
    if importlib.util.find_spec("pyarrow") is None:
        raise Absent("no pyarrow here")
    return [sys.executable, str(HERE / "interop.py")], importlib.metadata.version("pyarrow")


def make_go(folder):
    program = str(folder / "interop-go")
    run("go", "build", "-o", program, ".", cwd=HERE / "go")
    required = next(line for line in (HERE / "go/go.mod").read_text().splitlines() if "arrow-go" in line)
    return [program], required.removeprefix("require").split()[1].removeprefix("v")


def make_java(_):
    if shutil.which("javac") is None:
        raise Absent("no javac here")
    run("mvn", "-q", "-B", "process-classes", cwd=HERE / "java")
    target = HERE / "java/target"
    # Arrow Java looks into java.nio by reflection.
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    version = (HERE / "java/pom.xml").read_text().partition("<arrow.version>")[2].partition("<")[0]
    return ["java", opens, "-cp", f"{target}/classes:{target}/dependency/*", "Interop"], version


def make_js(_):
    if shutil.which("node") is None:
        raise Absent("no node here")
    run("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=HERE)
    version = json.loads((HERE / "package.json").read_text())["dependencies"]["apache-arrow"]
    return ["node", str(HERE / "interop.mjs")], version


MAKERS = {"pyarrow": make_pyarrow, "go": make_go, "java": make_java, "js": make_js}


def make_readers(folder):
    readers, versions = {}, {}
    for name, make in MAKERS.items():
        try:
            readers[name], versions[name] = make(folder)
        except Absent as e:
            print(f"{name}: left out, {e}")
    return readers, versions


def read(command, folder):
    """What a reader says of each file of the folder."""
    lines = map(json.loads, run(*command, "read", str(folder)).splitlines())
    return {line["file"]: line for line in lines}


def differs(answer, rows):
    """What is not as expected, or nothing."""
    if "error" in answer:
        return f"error: {answer['error']}"
    if len(answer["rows"]) != len(rows):
        return f"wrong: {len(answer['rows'])} rows instead of {len(rows)}"
    different = (f"{got} instead of {want}" for got, want in zip(answer["rows"], rows) if got != want)
    return next((f"wrong: {text}" for text in different), "")


def judge(reader, sample, complaints):
    """A cell of the matrix. `complaints`: of each of the sample's files, empty for those read as expected."""
    known = NOT_SUPPORTED.get((reader, sample))
    if known is not None:
        is_true = all(text.startswith("error: ") and known in text for text in complaints.values())
        return "not supported" if is_true else "LISTED WRONGLY"
    if not any(complaints.values()):
        return "ok"
    return "WRONG" if any(text.startswith("wrong") for text in complaints.values()) else "FAILED"


def matrix(readers, folder):
    """Sample → reader → cell, and what there is to say of cells that are not ok."""
    expected = json.loads((folder / "expected.json").read_text())
    table, remarks = {file["sample"]: {} for file in expected.values()}, []
    for reader, command in readers.items():
        answers = read(command, folder)
        for sample, cells in table.items():
            files = {name: file for name, file in expected.items() if file["sample"] == sample}
            silent = {"error": "the reader said nothing of it"}
            complaints = {name: differs(answers.get(name, silent), file["rows"]) for name, file in files.items()}
            cells[reader] = judge(reader, sample, complaints)
            if cells[reader] != "ok":
                remarks += remarks_on(reader, sample, cells[reader], complaints)
    return table, remarks


def remarks_on(reader, sample, cell, complaints):
    """One for what is known; else one for every file that is not as expected."""
    if cell == "not supported":
        return [(cell, f"{reader}, {sample}: {min(complaints.values()).removeprefix('error: ')}")]
    if cell == "LISTED WRONGLY":
        return [(cell, f"{reader}, {sample}: {max(complaints.values()) or 'read right'}")]
    return [(cell, f"{reader}, {sample}, {name}: {text[:300]}") for name, text in complaints.items() if text]


def the_other_way(readers, arrowwood, folder):
    """What Arrowwood makes of what each reader's library writes: file → nothing, or what is wrong."""
    folder.mkdir(exist_ok=True)
    for command in readers.values():
        run(*command, "write", str(folder))
    return {name: differs(line, WRITTEN) for name, line in read(arrowwood, folder).items()}


def through_shared_memory(readers, arrowwood):
    """What goes wrong between processes that share memory: streams in /dev/shm, written by Python and read by each
    reader where they are, and written by each and opened in place."""
    if importlib.util.find_spec("arrowwood") is None or not Path("/dev/shm").is_dir():
        print("shared memory: left out, no arrowwood for Python, or no /dev/shm")
        return []
    import arrowwood as aw

    numbers = list(range(3000))
    expected = [[str(n), f"row {n}"] for n in numbers]
    bad = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        ours.mkdir()
        rows = {"n": numbers, "text": [f"row {n}" for n in numbers]}
        aw.write(rows, ours / "rows.stream", format="stream", max_rows=1000)
        for name, command in readers.items():
            complaint = differs(read(command, ours)["rows.stream"], expected)
            bad += [f"a stream in shared memory, read by {name}: {complaint}"] if complaint else []
        for file, complaint in the_other_way(readers, arrowwood, theirs).items():
            copied = aw.open(theirs / file).footprint.copied
            complaint = complaint or (f"{copied} bytes were copied" if copied else "")
            bad += [f"shared memory, {file}: {complaint}"] if complaint else []
    return bad


INTRODUCTION = """# Read by other Arrow libraries

Made by `tests/interop/run.py`, see there. A line is a type, or a table that is awkward in another way. *ok*: every
value was read right, from file and stream, plain, lz4, zstd, and put together from slices.
"""


def page(table, remarks, written, versions):
    lines = [INTRODUCTION, "| | " + " | ".join(f"{name} {version}" for name, version in versions.items()) + " |"]
    lines.append("|---" * (len(versions) + 1) + "|")
    lines += [f"| `{sample}` | " + " | ".join(cells.values()) + " |" for sample, cells in table.items()]
    lines += ["", "What the readers say of what they do not support:", ""]
    lines += [f"- {text}" for cell, text in remarks if cell == "not supported"]
    right = ", ".join(f"`{name}`" for name, complaint in written.items() if not complaint)
    lines += ["", f"The other way, Arrowwood reads what the others write: {right}.", ""]
    return "\n".join(lines)


def failures(readers, remarks, written):
    bad = [f"{cell}: {text}" for cell, text in remarks if cell != "not supported"]
    bad += [f"written by another library, {name}: {text}" for name, text in written.items() if text]
    wanted = {f"{name}.{ending}" for name in readers for ending in ("arrow", "stream")}
    return bad + [f"written by another library, {name}: missing" for name in sorted(wanted - set(written))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, required=True, help="the built program examples/samples")
    parser.add_argument("--command", type=Path, required=True, help="the built command arrowwood")
    parser.add_argument("--folder", type=Path, required=True, help="for what is made")
    parser.add_argument("--markdown", type=Path, help="a page to write the matrix to")
    return parser.parse_args()


def main():
    options = arguments()
    samples, folder = [str(options.samples.resolve())], options.folder.resolve()
    for made in ("samples", "written"):
        shutil.rmtree(folder / made, ignore_errors=True)
    run(*samples, "write", str(folder / "samples"))
    readers, versions = make_readers(folder)
    table, remarks = matrix(readers, folder / "samples")
    written = the_other_way(readers, samples, folder / "written")
    go = (readers["go"][0], versions["go"]) if "go" in readers else None
    used, client_versions = clients.use(str(options.command.resolve()), go)

    text = page(table, remarks, written, versions) + clients.section(used, client_versions)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    bad = failures(readers, remarks, written) + clients.failures(used) + through_shared_memory(readers, samples)
    print("\n".join(bad) or f"{len(readers)} readers, {len(table)} samples: nothing wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
