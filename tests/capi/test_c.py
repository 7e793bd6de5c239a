"""Tests the C library with programs in C and C++ under sanitizers, Go, Python's ctypes and R: `make test-c`.

Also compares the header with the symbols that the library exports, and runs the programs of docs/c.md. The environment
variables below name what `make test-c` has built.
"""

import ctypes
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests/python"))
from waits import PATIENCE, join, wait_until  # noqa: E402

# An installed library, a folder of programs that cargo has built, and a copy of Arrow's test files if there is one.
PREFIX = Path(os.environ["ARROWWOOD_C_PREFIX"])
PROGRAMS = Path(os.environ["ARROWWOOD_C_PROGRAMS"])
GOLDEN = Path(os.environ.get("ARROW_TESTING") or ROOT / "../shared/arrow-testing")

HEADER = (PREFIX / "include/arrowwood.h").read_text()
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZERS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
ENVIRONMENT = {
    **os.environ,
    "PKG_CONFIG_PATH": str(PREFIX / "lib/pkgconfig"),
    "LD_LIBRARY_PATH": str(PREFIX / "lib"),
    "ASAN_OPTIONS": "detect_leaks=1",
    "RUST_BACKTRACE": "0",
}
# Compiled test programs.
BUILD_FOLDER = tempfile.TemporaryDirectory()


def run(*command, cwd=None, errors="strict"):
    """Runs a command that must succeed, and returns its output."""
    words = [str(word) for word in command]
    process = subprocess.run(words, cwd=cwd, capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
    if process.returncode:
        output = process.stdout.decode()[-2000:] + process.stderr.decode()[-4000:]
        raise AssertionError(f"{' '.join(words)[:300]}: {process.returncode}\n{output}")
    return process.stdout.decode(errors=errors)


HAS_PKG_CONFIG = shutil.which("pkg-config") is not None
needs_pkg_config = unittest.skipUnless(HAS_PKG_CONFIG, "there is no pkg-config here")
needs_cpp = unittest.skipUnless(shutil.which("c++"), "there is no C++ compiler here")


def compiler_flags(*options):
    """Returns the compiler flags to build against the installed library."""
    if not HAS_PKG_CONFIG:
        return [f"-I{PREFIX}/include", f"-L{PREFIX}/lib", "-larrowwood"]
    return run("pkg-config", *options, "--cflags", "--libs", "arrowwood").split()


def compile_c(*sources, standard="c99", sanitizers=SANITIZERS, name=None, compiler="cc"):
    """Compiles C or C++ sources once, under sanitizers unless asked otherwise. Returns the program."""
    program = Path(BUILD_FOLDER.name) / (name or Path(sources[0]).stem)
    if not program.exists():
        libraries = [*compiler_flags(), "-lm", "-lpthread"]
        run(compiler, f"-std={standard}", *WARNINGS, *sanitizers, *sources, "-o", program, *libraries)
    return program


def c_source(name):
    return HERE / "c" / name


def dump(way, flags, files):
    """Reads files with the C program `dump`, through the function `way`. Returns its answers by the names of files."""
    program = compile_c(c_source("dump.c"), c_source("decode.c"))
    lines = run(program, way, flags, *files).splitlines()
    return {line["file"]: line for line in map(json.loads, lines)}


class FolderTest(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class HeaderTest(unittest.TestCase):
    def declared_functions(self):
        """Returns the functions that the header declares and doesn't define inline."""
        text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
        inline = set(re.findall(r"static inline [\w ]+?(arrowwood_\w+)\(", text))
        return set(re.findall(r"\b(arrowwood_\w+)\(", text)) - inline

    def test_exports_are_the_declared_functions(self):
        lines = run("nm", "-D", "--defined-only", PREFIX / "lib/libarrowwood.so").splitlines()
        self.assertEqual({line.split()[-1] for line in lines}, self.declared_functions())

    def test_each_function_has_a_comment(self):
        for name in self.declared_functions():
            declaration = re.search(rf"^[\w ]+[ *]{name}\(", HEADER, re.M)
            self.assertIsNotNone(declaration, name)
            above = HEADER[: declaration.start()].rstrip()
            # A function may share the comment of the one before it.
            self.assertTrue(above.endswith(("*/", ";")), name)

    def test_versions_of_library_and_header_agree(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        abi = re.search(r"ARROWWOOD_ABI_VERSION (\d+)", HEADER)[1]
        self.assertIn(f"\nVersion: {version}\n", (PREFIX / "lib/pkgconfig/arrowwood.pc").read_text())
        self.assertIn(f"[libarrowwood.so.{abi}]", run("readelf", "-d", PREFIX / "lib/libarrowwood.so"))
        library = ctypes.CDLL(str(PREFIX / f"lib/libarrowwood.so.{abi}"))
        self.assertEqual(library.arrowwood_abi_version(), int(abi))

    def test_struct_layouts_are_those_of_rust(self):
        run(compile_c(c_source("layout.c"), standard="c11"))

    @needs_cpp
    def test_header_compiles_as_cpp(self):
        run(compile_c(c_source("layout.c"), standard="c++17", compiler="c++", name="layout++"))


class ProgramsTest(FolderTest):
    def test_datasets(self):
        run(compile_c(c_source("dataset.c")), self.folder)

    def test_tables(self):
        run(compile_c(c_source("tables.c")), self.folder)

    def test_columns(self):
        run(compile_c(c_source("columns.c")), self.folder)

    def test_threads(self):
        run(compile_c(c_source("threads.c")), self.folder)

    def test_callbacks(self):
        run(compile_c(c_source("callbacks.c"), standard="gnu11"), cwd=self.folder)

    def test_every_function_reports_values_of_a_truncated_file(self):
        program = compile_c(c_source("truncated.c"), standard="gnu11")
        names = run(program, "list").split()
        # Functions with a pointer to memory that may be a mapped file, except three that only fill a struct.
        memory = r"const (arrowwood_value|arrowwood_column|void|u?int64_t|size_t) \*|struct ArrowArray(Stream)? \*"
        filled = {"arrowwood_dataset_batch", "arrowwood_dataset_stream", "arrowwood_dataset_column_stream"}
        text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
        prototypes = re.findall(r"^int32_t (arrowwood_\w+)\(([^;]*)\);", text, re.M)
        takers = {name for name, parameters in prototypes if re.search(memory, parameters)}
        self.assertEqual(set(names), takers - filled)
        for name in names:
            folder = self.folder / name
            folder.mkdir()
            self.assertEqual(run(program, name, cwd=folder), f"{name} is safe\n")

    def test_leaks_are_detected(self):
        """Checks the leak checker that the other programs rely on."""
        program = compile_c(c_source("leak.c"))
        run(program)
        for kind in ("schema", "array", "chunks", "text", "dataset", "error"):
            process = subprocess.run([program, kind], capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
            self.assertTrue(process.returncode != 0 and b"LeakSanitizer" in process.stderr, kind)

    @needs_pkg_config
    def test_static_library(self):
        program = Path(BUILD_FOLDER.name) / "static"
        static = [word.replace("-larrowwood", "-l:libarrowwood.a") for word in compiler_flags("--static")]
        # The compiler adds libgcc_s itself, and a fully static program can't link it.
        self.assertNotIn("-lgcc_s", static)
        run("cc", "-std=c99", *WARNINGS, c_source("dataset.c"), "-o", program, *static)
        self.assertNotIn("libarrowwood", run("ldd", program))
        run(program, self.folder)

    @unittest.skipUnless(shutil.which("cmake"), "there is no CMake here")
    def test_cmake_finds_the_library(self):
        """Finds it where it was moved to, and refuses another version than the asked one."""
        moved, build = self.folder / "moved", self.folder / "build"
        moved.symlink_to(PREFIX)
        project = self.folder / "CMakeLists.txt"
        text = (
            "cmake_minimum_required(VERSION 3.16)\nproject(test C)\nfind_package(arrowwood {} REQUIRED)\n"
            f"add_executable(dataset {c_source('dataset.c')})\ntarget_link_libraries(dataset arrowwood::arrowwood)\n"
            "message(STATUS ${{arrowwood_DIR}})\n"
        )
        version = re.search(r"^Version: (\d+\.\d+)", (PREFIX / "lib/pkgconfig/arrowwood.pc").read_text(), re.M)
        project.write_text(text.format(version[1]))
        configure = ["cmake", "-S", self.folder, "-B", build, f"-DCMAKE_PREFIX_PATH={moved}"]
        self.assertIn(str(moved), run(*configure))
        run("cmake", "--build", build)
        run(build / "dataset", self.folder)
        project.write_text(text.format("99.0"))
        refused = subprocess.run(configure, capture_output=True, text=True)
        self.assertTrue(refused.returncode != 0 and '"99.0"' in refused.stderr, refused.stderr)

    def test_freeing_a_handle_twice_is_detected(self):
        """Freeing twice is not allowed, so it is enough that the library or the sanitizer notices it."""
        program = compile_c(c_source("twice.c"))
        process = subprocess.run([program, self.folder], capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
        output = (process.stdout + process.stderr).decode()
        self.assertTrue(process.returncode == 0 and "refused" in output or "AddressSanitizer" in output, output)


class RowsTest(FolderTest):
    """Reads files with every function that returns rows, and compares the rows with what Rust reads."""

    # Functions, with the flags: 1 is ARROWWOOD_STRUCTURE_ONLY, 2 is ARROWWOOD_ALIGNED.
    WAYS = [(way, 0) for way in ("cells", "value", "stream", "array", "chunks")]
    WAYS += [("stream", 3), ("chunks", 1), ("chunks", 2)]

    def check_rows(self, files, expected):
        for way, flags in self.WAYS:
            found = dump(way, flags, files)
            self.assertEqual(len(found), len(files))
            for name, rows in expected.items():
                # A dataset without columns has no chunks.
                if way == "chunks" and rows and rows[0] == []:
                    continue
                with self.subTest(file=name, way=way, flags=flags):
                    self.assertNotIn("error", found[name])
                    self.assertEqual(found[name]["rows"], rows)

    def test_all_types(self):
        run(PROGRAMS / "samples", "write", self.folder)
        files = sorted(path for path in self.folder.iterdir() if path.suffix != ".json")
        expected = json.loads((self.folder / "expected.json").read_text())
        self.check_rows(files, {name: file["rows"] for name, file in expected.items()})

    @unittest.skipUnless((GOLDEN / "golden").is_dir(), "Arrow's golden files are not here")
    def test_golden_files(self):
        found = sorted([*(GOLDEN / "golden").glob("*/*.arrow_file"), *(GOLDEN / "golden").glob("*/*.stream")])
        self.assertGreater(len(found), 80)
        for path in found:
            ending = "arrow" if path.suffix == ".arrow_file" else "stream"
            (self.folder / f"{path.parent.name}-{path.stem}.{ending}").symlink_to(path)
        files = sorted(self.folder.iterdir())
        lines = map(json.loads, run(PROGRAMS / "samples", "read", self.folder).splitlines())
        self.check_rows(files, {line["file"]: line["rows"] for line in lines})

    @unittest.skipUnless((GOLDEN / "golden").is_dir(), "Arrow's golden files are not here")
    def test_golden_columns_match_their_json(self):
        """Compares some columns with the JSON beside the files, independently of Rust."""
        path = GOLDEN / "golden/1.0.0-littleendian/generated_primitive"
        described = json.loads(gzip.open(path.with_suffix(".json.gz")).read())
        names = [field["name"] for field in described["schema"]["fields"]]
        rows = dump("chunks", 1, [path.with_suffix(".arrow_file")])[path.with_suffix(".arrow_file").name]["rows"]
        for name in ("int8_nullable", "uint64_nullable", "utf8_nullable"):
            expected = []
            for batch in described["batches"]:
                column = next(column for column in batch["columns"] if column["name"] == name)
                pairs = zip(column["VALIDITY"], column["DATA"])
                expected += [str(value) if is_valid else None for is_valid, value in pairs]
            self.assertEqual([row[names.index(name)] for row in rows], expected)

    @unittest.skipUnless((GOLDEN / "fuzz-file").is_dir(), "Arrow's fuzzed files are not here")
    def test_fuzzed_files_give_rows_or_errors(self):
        files = sorted([*(GOLDEN / "fuzz-file").iterdir(), *(GOLDEN / "fuzz-stream").iterdir()])
        self.assertGreater(len(files), 60)
        for way, flags in [("cells", 0), ("stream", 0), ("chunks", 0), ("chunks", 1), ("chunks", 3)]:
            # With ARROWWOOD_STRUCTURE_ONLY text may be invalid UTF-8, so lines need not be JSON.
            output = run(compile_c(c_source("dump.c"), c_source("decode.c")), way, flags, *files, errors="replace")
            self.assertEqual(output.count('{"file":'), len(files))


class TypesTest(FolderTest):
    """Tests the table of docs/c.md: which types can be read in place, written, and appended."""

    FAMILIES = [
        (r"null", "`null`"),
        (r"u?int\d+|float\d+|bool", "numbers, `bool`"),
        (r"decimal.*", "`decimal32` … `decimal256`"),
        (r"date.*|time.*|duration.*|interval.*", "dates, times, timestamps, durations, intervals"),
        (r"(large_)?(utf8|binary)(_view)?|fixed_size_binary.*", "text and binary, of each layout"),
        (r"(large_)?list<.*|fixed_size_list.*", "`list`, `large_list`, `fixed_size_list`"),
        (r"(large_)?list_view<.*", "`list_view`, `large_list_view`"),
        (r"struct.*|map<.*|(sparse|dense)_union<.*", "`struct`, `map`, unions"),
        (r"dictionary<\w+, (large_)?(utf8|binary)(_view)?>", "dictionaries of text and binary"),
        (r"dictionary<.*", "other dictionaries"),
        (r"run_end_encoded<.*", "run-end encoded"),
    ]

    def family(self, name):
        return next((family for pattern, family in self.FAMILIES if re.fullmatch(pattern, name)), None)

    def check_rows(self, expected, paths):
        for path in paths:
            found = dump("cells", 0, [path])[path.name]
            self.assertEqual(found.get("rows"), expected, path.name)

    def test_table_of_types_in_the_docs(self):
        run(PROGRAMS / "samples", "write", self.folder)
        samples = json.loads((self.folder / "expected.json").read_text())
        types = {name: sample for name, sample in samples.items() if self.family(sample["sample"])}
        plain = {name: sample for name, sample in types.items() if name.endswith("_plain.arrow")}
        self.assertGreater(len(plain), 50)
        out = self.folder / "out"
        out.mkdir()
        program = compile_c(c_source("matrix.c"), standard="gnu11")
        marks = {}
        for line in map(json.loads, run(program, out, *(self.folder / name for name in plain)).splitlines()):
            name, sample = line["file"], plain[line["file"]]
            written = [out / f"{name}.copy.arrow", out / f"{name}.copy.stream"]
            tables = [out / f"{name}.{way}" for way in ("all", "each") if line[way]]
            self.check_rows(sample["rows"], written + tables)
            row = tuple("✓" if line[way] else "–" for way in ("in_place", "all", "each"))
            self.assertEqual(marks.setdefault(self.family(sample["sample"]), row), row, name)
        lines = ["| Arrow | read, in place | written | appended as data | as a row |", "|---|---|---|---|---|"]
        lines += [
            f"| {family} | {marks[family][0]} | ✓ | {marks[family][1]} | {marks[family][2]} |"
            for _, family in self.FAMILIES
        ]
        self.assertIn("\n".join(lines), (ROOT / "docs/c.md").read_text())


class RefusalsTest(unittest.TestCase):
    """Calls every function with invalid arguments, in a process of its own."""

    def test_bad_arguments(self):
        output = run(sys.executable, HERE / "refuse.py", PREFIX / "lib/libarrowwood.so", PREFIX / "include/arrowwood.h")
        self.assertIn("all refused", output)


class ExamplesTest(FolderTest):
    def write_numbers(self):
        """Writes a file with a column of numbers."""
        text = self.folder / "numbers.csv"
        text.write_text("n,x\n" + "".join(f"{n},{n}.5\n" for n in range(1000)))
        run(PROGRAMS / "../arrowwood", "import", text, self.folder / "numbers.arrow")
        return self.folder / "numbers.arrow"

    def test_sum_example(self):
        program = compile_c(ROOT / "examples/c/sum.c")
        output = run(program, self.write_numbers(), "x").splitlines()
        self.assertEqual(output, ["500000 is the sum of 1000 values", "500000 by hand, in 1 batches"])
        failed = subprocess.run([program, self.write_numbers(), "y"], env=ENVIRONMENT, capture_output=True)
        self.assertEqual((failed.returncode, failed.stderr), (1, b"no column 'y'; there are 'n', 'x'\n"))

    def test_ticks_example(self):
        program, table = compile_c(ROOT / "examples/c/ticks.c"), self.folder / "ticks"
        writer = subprocess.Popen([program, "append", table, "50000"], env=ENVIRONMENT)
        wait_until(lambda: any(table.glob("*.arrow")) or writer.poll() is not None, "there is a table")
        self.assertEqual(run(program, "follow", table, 50000), "50000 rows, mean 124.500\n")
        self.assertEqual(writer.wait(PATIENCE), 0)
        # A second run starts with the first times again, which a sorted table refuses.
        failed = subprocess.run([program, "append", table, "10"], env=ENVIRONMENT, capture_output=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(b"column 'ts'", failed.stderr)

    @needs_cpp
    def test_cpp_example(self):
        program = compile_c(ROOT / "examples/cpp/prices.cpp", standard="c++17", compiler="c++")
        output = run(program, self.folder / "prices").splitlines()
        self.assertEqual(output, ["1001 rows, sum 499500 by hand, 499500 by the library", "IBM 1", "column not found"])
        lines = (ROOT / "examples/cpp/arrowwood.hpp").read_text().splitlines()
        self.assertLess(len(lines), 130, "the example is too long to be read as one")

    @needs_cpp
    def test_cpp_example_discards_incomplete_batches(self):
        with tempfile.TemporaryDirectory() as headers:
            shutil.copy(ROOT / "examples/cpp/arrowwood.hpp", headers)
            program = compile_c(f"-I{headers}", c_source("half.cpp"), standard="c++17", name="half", compiler="c++")
        process = subprocess.run([program, self.folder / "half"], env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(process.stdout, "a message that can't be parsed\n2 discarded, 1 there\n")
        self.assertEqual(process.stderr, "1 rows discarded: they were not committed\n")

    @needs_pkg_config
    def test_r_example(self):
        output = run(ROOT / "examples/r/run.sh", self.write_numbers(), "x")
        if output.startswith("left out"):
            self.skipTest(output.strip())
        self.assertEqual(output.strip(), "500000")
        failed = subprocess.run(
            [ROOT / "examples/r/run.sh", self.write_numbers(), "y"], env=ENVIRONMENT, capture_output=True
        )
        self.assertIn("no column 'y'", failed.stderr.decode())


@needs_pkg_config
@unittest.skipUnless(shutil.which("go"), "there is no Go here")
class GoTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.program = Path(BUILD_FOLDER.name) / "capi-go"
        run("go", "build", "-o", cls.program, ".", cwd=HERE / "go")

    def test_goroutines_share_a_dataset(self):
        text = self.folder / "numbers.csv"
        text.write_text("n\n" + "".join(f"{n}\n" for n in range(10000)))
        run(PROGRAMS / "../arrowwood", "import", text, self.folder / "numbers.arrow")
        self.assertIn("all as it should be", run(self.program, "goroutines", self.folder / "numbers.arrow", 5000))

    def test_c_and_go_follow_a_table_that_rust_writes(self):
        rows, table = 20000, self.folder / "live"
        run(PROGRAMS / "../arrowwood", "create", table, "--schema", "n: int64 not null", "--segment-rows", "3000")
        c_program = compile_c(c_source("follow.c"))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        writer = subprocess.Popen([PROGRAMS / "../arrowwood", "append", table], env=ENVIRONMENT, **pipes)
        in_c = Follower(c_program, table, str(rows))
        in_go = Follower(self.program, "follow", table, str(rows))
        write_json_rows(writer, 0, 7000)
        # A follower can't start at a row that isn't committed yet.
        wait_until(lambda: len(in_c.lines) == len(in_go.lines) == 7000, "C and Go have seen 7,000 rows")
        from_the_middle = Follower(c_program, "7000", table, str(rows))
        followers = [in_c, in_go, from_the_middle]
        write_json_rows(writer, 7000, 8000)
        wait_until(lambda: all(it.lines[-1:] == [b"7999"] for it in followers), "all have seen 8,000 rows")
        write_json_rows(writer, 8000, rows)
        writer.stdin.close()
        self.assertEqual([follower.wait() for follower in followers], [0, 0, 0])
        self.assertEqual(writer.wait(PATIENCE), 0)
        expected = [str(n).encode() for n in range(rows)]
        self.assertEqual(in_c.lines, expected)
        self.assertEqual(in_go.lines, expected)
        self.assertEqual(from_the_middle.lines, expected[7000:])


class Follower:
    """A process that follows a table, and a thread that collects the lines that it prints."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
        self.lines = []
        self.thread = threading.Thread(target=self.read_lines)
        self.thread.start()

    def read_lines(self):
        with self.process.stdout:
            self.lines.extend(line.strip() for line in self.process.stdout)

    def wait(self):
        """Waits for the end of the process, and returns its exit status."""
        join(self.thread)
        return self.process.wait(PATIENCE)


def write_json_rows(writer, start, stop):
    """Writes rows to the standard input of a process, in batches of 100."""
    for first in range(start, stop, 100):
        writer.stdin.write("".join(f'{{"n": {n}}}\n' for n in range(first, first + 100)).encode())
        writer.stdin.flush()


class PageTest(FolderTest):
    """Compiles and runs the programs of docs/c.md, and compares their output with the page."""

    FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

    def test_programs(self):
        blocks = self.FENCE.findall((ROOT / "docs/c.md").read_text())
        printed, count = None, 0
        for language, text in blocks:
            if language == "c":
                count += 1
                source = self.folder / f"page{count}.c"
                source.write_text(text)
                # The page declares variables where they are first used, which is C11.
                program = compile_c(source, standard="c11")
                printed = run(program, cwd=self.folder)
            elif language == "text" and printed is not None:
                pattern = re.escape(" ".join(text.split())).replace("…", ".*?")
                self.assertRegex(" ".join(printed.split()), f"^{pattern}$")
                printed = None
        self.assertGreaterEqual(count, 3)


if __name__ == "__main__":
    unittest.main()
