"""The C library from outside: programs in C and C++ under sanitizers, Go, Python's ctypes, R; the header against what
the library exports; the page of the docs. `make test-c` builds what is needed and says where it is."""

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

# An installed library, programs that cargo has built, and Arrow's files where a copy of them is.
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
# Where the programs of this run are.
BUILT = tempfile.TemporaryDirectory()


def run(*command, cwd=None, errors="strict"):
    """What a command prints; it has to end well."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
    if done.returncode:
        shown = " ".join(str(word) for word in command)[:300]
        said = done.stdout.decode()[-2000:] + done.stderr.decode()[-4000:]
        raise AssertionError(f"{shown}: {done.returncode}\n{said}")
    return done.stdout.decode(errors=errors)


HAS_PKG_CONFIG = shutil.which("pkg-config") is not None
needs_pkg_config = unittest.skipUnless(HAS_PKG_CONFIG, "there is no pkg-config here")
needs_cpp = unittest.skipUnless(shutil.which("c++"), "there is no C++ compiler here")


def flags(*options):
    """What compiling against the installed library takes."""
    if not HAS_PKG_CONFIG:
        return [f"-I{PREFIX}/include", f"-L{PREFIX}/lib", "-larrowwood"]
    return run("pkg-config", *options, "--cflags", "--libs", "arrowwood").split()


def compile_c(*sources, standard="c99", sanitizers=SANITIZERS, name=None, compiler="cc"):
    """The program that C or C++ sources make, under sanitizers unless asked otherwise; made once."""
    program = Path(BUILT.name) / (name or Path(sources[0]).stem)
    if not program.exists():
        libraries = [*flags(), "-lm", "-lpthread"]
        run(compiler, f"-std={standard}", *WARNINGS, *sanitizers, *sources, "-o", program, *libraries)
    return program


def own(name):
    return HERE / "c" / name


def dump(way, flags, files):
    """The rows of files as the C program prints them, by the names of the files."""
    program = compile_c(own("dump.c"), own("decode.c"))
    lines = run(program, way, flags, *files).splitlines()
    return {line["file"]: line for line in map(json.loads, lines)}


class Folder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)


class Header(unittest.TestCase):
    def declared(self):
        """Functions that the header declares and doesn't define itself."""
        text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
        inline = set(re.findall(r"static inline [\w ]+?(arrowwood_\w+)\(", text))
        return set(re.findall(r"\b(arrowwood_\w+)\(", text)) - inline

    def test_what_is_declared_is_exported_and_nothing_else(self):
        lines = run("nm", "-D", "--defined-only", PREFIX / "lib/libarrowwood.so").splitlines()
        self.assertEqual({line.split()[-1] for line in lines}, self.declared())

    def test_each_function_is_documented_and_in_the_order_of_c(self):
        for name in self.declared():
            place = re.search(rf"^[\w ]+[ *]{name}\(", HEADER, re.M)
            self.assertIsNotNone(place, name)
            above = HEADER[: place.start()].rstrip()
            # A function may share the comment of the one before it.
            self.assertTrue(above.endswith(("*/", ";")), name)

    def test_the_versions_agree(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        abi = re.search(r"ARROWWOOD_ABI_VERSION (\d+)", HEADER)[1]
        self.assertIn(f"\nVersion: {version}\n", (PREFIX / "lib/pkgconfig/arrowwood.pc").read_text())
        self.assertIn(f"[libarrowwood.so.{abi}]", run("readelf", "-d", PREFIX / "lib/libarrowwood.so"))
        library = ctypes.CDLL(str(PREFIX / f"lib/libarrowwood.so.{abi}"))
        self.assertEqual(library.arrowwood_abi_version(), int(abi))

    def test_structs_are_laid_out_as_both_sides_say(self):
        run(compile_c(own("layout.c"), standard="c11"))

    @needs_cpp
    def test_the_header_is_cpp_as_well(self):
        run(compile_c(own("layout.c"), standard="c++17", compiler="c++", name="layout++"))


class Programs(Folder):
    def test_datasets(self):
        run(compile_c(own("dataset.c")), self.folder)

    def test_tables(self):
        run(compile_c(own("tables.c")), self.folder)

    def test_columns(self):
        run(compile_c(own("columns.c")), self.folder)

    def test_threads(self):
        run(compile_c(own("threads.c")), self.folder)

    def test_callbacks(self):
        run(compile_c(own("callbacks.c"), standard="gnu11"), cwd=self.folder)

    def test_values_of_a_truncated_file_are_errors_wherever_they_are_passed(self):
        program = compile_c(own("truncated.c"), standard="gnu11")
        names = run(program, "list").split()
        # What points to memory that may be that of a file; three of these functions fill a struct.
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

    def test_what_is_not_freed_is_noticed(self):
        """Without this the other programs would prove nothing by ending well."""
        program = compile_c(own("leak.c"))
        run(program)
        for kind in ("schema", "array", "chunks", "text", "dataset", "error"):
            done = subprocess.run([program, kind], capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
            self.assertTrue(done.returncode != 0 and b"LeakSanitizer" in done.stderr, kind)

    @needs_pkg_config
    def test_the_static_library(self):
        program = Path(BUILT.name) / "static"
        static = [word.replace("-larrowwood", "-l:libarrowwood.a") for word in flags("--static")]
        # The compiler adds it, and it is nothing that could be linked into a program that is static as a whole.
        self.assertNotIn("-lgcc_s", static)
        run("cc", "-std=c99", *WARNINGS, own("dataset.c"), "-o", program, *static)
        self.assertNotIn("libarrowwood", run("ldd", program))
        run(program, self.folder)

    def test_a_handle_that_is_freed_twice_is_refused_or_reported(self):
        """Not allowed, so all that is asked for is that it is not taken for a living one in silence."""
        program = compile_c(own("twice.c"))
        done = subprocess.run([program, self.folder], capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
        said = (done.stdout + done.stderr).decode()
        self.assertTrue(done.returncode == 0 and "refused" in said or "AddressSanitizer" in said, said)


class Rows(Folder):
    """The rows of files by every way that the library has, against what Rust reads."""

    # The second is the flags: 1 for structure only, 2 for aligned.
    WAYS = [(way, 0) for way in ("cells", "value", "stream", "array", "chunks")]
    WAYS += [("stream", 3), ("chunks", 1), ("chunks", 2)]

    def check(self, files, expected):
        for way, given in self.WAYS:
            found = dump(way, given, files)
            self.assertEqual(len(found), len(files))
            for name, rows in expected.items():
                # Without columns there are no chunks.
                if way == "chunks" and rows and rows[0] == []:
                    continue
                with self.subTest(file=name, way=way, flags=given):
                    self.assertNotIn("error", found[name])
                    self.assertEqual(found[name]["rows"], rows)

    def test_all_types(self):
        run(PROGRAMS / "samples", "write", self.folder)
        files = sorted(path for path in self.folder.iterdir() if path.suffix != ".json")
        expected = json.loads((self.folder / "expected.json").read_text())
        self.check(files, {name: file["rows"] for name, file in expected.items()})

    @unittest.skipUnless((GOLDEN / "golden").is_dir(), "Arrow's golden files are not here")
    def test_golden_files(self):
        found = sorted([*(GOLDEN / "golden").glob("*/*.arrow_file"), *(GOLDEN / "golden").glob("*/*.stream")])
        self.assertGreater(len(found), 80)
        for path in found:
            ending = "arrow" if path.suffix == ".arrow_file" else "stream"
            (self.folder / f"{path.parent.name}-{path.stem}.{ending}").symlink_to(path)
        files = sorted(self.folder.iterdir())
        lines = map(json.loads, run(PROGRAMS / "samples", "read", self.folder).splitlines())
        self.check(files, {line["file"]: line["rows"] for line in lines})

    @unittest.skipUnless((GOLDEN / "golden").is_dir(), "Arrow's golden files are not here")
    def test_golden_integers_are_those_of_their_json(self):
        """Rust aside: some columns against the JSON that comes with the files."""
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
        for way, given in [("cells", 0), ("stream", 0), ("chunks", 0), ("chunks", 1), ("chunks", 3)]:
            # What is structure only may be text that is no UTF-8, so its lines need not be JSON.
            said = run(compile_c(own("dump.c"), own("decode.c")), way, given, *files, errors="replace")
            self.assertEqual(said.count('{"file":'), len(files))


class Types(Folder):
    """Types × what works with them, as docs/c.md has it: read by every way, in place, written, appended."""

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

    def test_the_matrix(self):
        run(PROGRAMS / "samples", "write", self.folder)
        samples = json.loads((self.folder / "expected.json").read_text())
        types = {name: sample for name, sample in samples.items() if self.family(sample["sample"])}
        plain = {name: sample for name, sample in types.items() if name.endswith("_plain.arrow")}
        self.assertGreater(len(plain), 50)
        out = self.folder / "out"
        out.mkdir()
        program = compile_c(own("matrix.c"), standard="gnu11")
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


class Refusals(unittest.TestCase):
    """By ctypes, in a process of its own: what is no argument is refused, by each function that there is."""

    def test_bad_arguments(self):
        said = run(sys.executable, HERE / "refuse.py", PREFIX / "lib/libarrowwood.so", PREFIX / "include/arrowwood.h")
        self.assertIn("all refused", said)


class Examples(Folder):
    def numbers(self):
        """A file with a column of numbers."""
        text = self.folder / "numbers.csv"
        text.write_text("n,x\n" + "".join(f"{n},{n}.5\n" for n in range(1000)))
        run(PROGRAMS / "../arrowwood", "import", text, self.folder / "numbers.arrow")
        return self.folder / "numbers.arrow"

    def test_sum(self):
        program = compile_c(ROOT / "examples/c/sum.c")
        said = run(program, self.numbers(), "x").splitlines()
        self.assertEqual(said, ["500000 is the sum of 1000 values", "500000 by hand, in 1 batches"])
        failed = subprocess.run([program, self.numbers(), "y"], env=ENVIRONMENT, capture_output=True)
        self.assertEqual((failed.returncode, failed.stderr), (1, b"no column 'y'; there are 'n', 'x'\n"))

    def test_append_and_follow(self):
        program, table = compile_c(ROOT / "examples/c/ticks.c"), self.folder / "ticks"
        writer = subprocess.Popen([program, "append", table, "50000"], env=ENVIRONMENT)
        wait_until(lambda: any(table.glob("*.arrow")) or writer.poll() is not None, "there is a table")
        self.assertEqual(run(program, "follow", table, 50000), "50000 rows, mean 124.500\n")
        self.assertEqual(writer.wait(PATIENCE), 0)
        # The times of a second run begin anew, which a sorted table refuses.
        failed = subprocess.run([program, "append", table, "10"], env=ENVIRONMENT, capture_output=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(b"column 'ts'", failed.stderr)

    @needs_cpp
    def test_cpp(self):
        program = compile_c(ROOT / "examples/cpp/prices.cpp", standard="c++17", compiler="c++")
        said = run(program, self.folder / "prices").splitlines()
        self.assertEqual(said, ["1001 rows, sum 499500 by hand, 499500 by the library", "IBM 1", "column not found"])
        lines = (ROOT / "examples/cpp/arrowwood.hpp").read_text().splitlines()
        self.assertLess(len(lines), 130, "an example that is longer is no longer one")

    @needs_cpp
    def test_cpp_never_commits_half_a_batch(self):
        with tempfile.TemporaryDirectory() as headers:
            shutil.copy(ROOT / "examples/cpp/arrowwood.hpp", headers)
            program = compile_c(f"-I{headers}", own("half.cpp"), standard="c++17", name="half", compiler="c++")
        done = subprocess.run([program, self.folder / "half"], env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(done.stdout, "a message that can't be parsed\n2 discarded, 1 there\n")
        self.assertEqual(done.stderr, "1 rows discarded: they were not committed\n")

    @needs_pkg_config
    def test_r(self):
        said = run(ROOT / "examples/r/run.sh", self.numbers(), "x")
        if said.startswith("left out"):
            self.skipTest(said.strip())
        self.assertEqual(said.strip(), "500000")
        failed = subprocess.run([ROOT / "examples/r/run.sh", self.numbers(), "y"], env=ENVIRONMENT, capture_output=True)
        self.assertIn("no column 'y'", failed.stderr.decode())


@needs_pkg_config
@unittest.skipUnless(shutil.which("go"), "there is no Go here")
class Go(Folder):
    @classmethod
    def setUpClass(cls):
        cls.program = Path(BUILT.name) / "capi-go"
        run("go", "build", "-o", cls.program, ".", cwd=HERE / "go")

    def test_thousands_of_goroutines(self):
        text = self.folder / "numbers.csv"
        text.write_text("n\n" + "".join(f"{n}\n" for n in range(10000)))
        run(PROGRAMS / "../arrowwood", "import", text, self.folder / "numbers.arrow")
        self.assertIn("all as it should be", run(self.program, "goroutines", self.folder / "numbers.arrow", 5000))

    def test_a_table_that_rust_writes_is_followed_by_c_and_go(self):
        rows, table = 20000, self.folder / "live"
        run(PROGRAMS / "../arrowwood", "create", table, "--schema", "n: int64 not null", "--segment-rows", "3000")
        in_c = compile_c(own("follow.c"))

        def follow(*command):
            return subprocess.Popen([*command, table, str(rows)], stdout=subprocess.PIPE, env=ENVIRONMENT)

        followers, readers, seen = {}, [], {}

        def read(name, *command):
            """Keeps what a follower prints, as it comes."""
            follower = followers[name] = follow(*command)
            numbers = seen[name] = []

            def lines():
                with follower.stdout:
                    numbers.extend(line.strip() for line in follower.stdout)

            readers.append(threading.Thread(target=lines))
            readers[-1].start()

        def feed(*steps):
            for start in range(*steps, 100):
                writer.stdin.write("".join(f'{{"n": {n}}}\n' for n in range(start, start + 100)).encode())
                writer.stdin.flush()

        quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        writer = subprocess.Popen([PROGRAMS / "../arrowwood", "append", table], env=ENVIRONMENT, **quiet)
        read("C", in_c)
        read("Go", self.program, "follow")
        feed(0, 7000)
        # Nobody begins behind the end of a table.
        wait_until(lambda: len(seen["C"]) == len(seen["Go"]) == 7000, "C and Go have seen 7,000 rows")
        read("C from the middle on", in_c, "7000")
        feed(7000, 8000)
        wait_until(lambda: all(numbers[-1:] == [b"7999"] for numbers in seen.values()), "all have seen 8,000 rows")
        feed(8000, rows)
        writer.stdin.close()
        for reader in readers:
            join(reader)
        self.assertEqual(writer.wait(PATIENCE), 0)
        every = [str(n).encode() for n in range(rows)]
        self.assertEqual([follower.wait(PATIENCE) for follower in followers.values()], [0, 0, 0])
        self.assertEqual(seen, {"C": every, "C from the middle on": every[7000:], "Go": every})


class Page(Folder):
    """docs/c.md: its programs are compiled and run, and what they print is compared."""

    FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

    def test_programs(self):
        blocks = self.FENCE.findall((ROOT / "docs/c.md").read_text())
        printed, count = None, 0
        for language, text in blocks:
            if language == "c":
                count += 1
                source = self.folder / f"page{count}.c"
                source.write_text(text)
                # Programs of today: C11, with declarations where they are needed.
                program = compile_c(source, standard="c11")
                printed = run(program, cwd=self.folder)
            elif language == "text" and printed is not None:
                pattern = re.escape(" ".join(text.split())).replace("…", ".*?")
                self.assertRegex(" ".join(printed.split()), f"^{pattern}$")
                printed = None
        self.assertGreaterEqual(count, 3)


if __name__ == "__main__":
    unittest.main()
