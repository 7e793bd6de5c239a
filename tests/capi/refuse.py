"""Calls every function of the header with what is no argument: `refuse.py LIBRARY HEADER`.

The prototypes are read from the header, so that no function is forgotten. Each call has to come back, with the code of
an error that is not a defect, or with success where NULL and zeros are good arguments."""

import ctypes
import re
import sys
import tempfile
from pathlib import Path

LIBRARY, HEADER = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]).read_text()
INVALID_ARGUMENT, UNSUPPORTED, INTERNAL = 8, 4, 14
HANDLES = ["dataset", "predicate", "writer", "follower", "builder", "chunks"]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("os_error", ctypes.c_int32), ("message", ctypes.c_char_p)]


class Parameter:
    def __init__(self, text):
        self.text = text.strip()
        name = re.search(r"\(\*(\w+)\)|(\w+)$", self.text)
        self.name = name[1] or name[2]
        self.is_function = "(*" in self.text or self.text.startswith("arrowwood_progress ")
        self.is_pointer = "*" in self.text and not self.is_function
        handle = re.fullmatch(r"(?:const )?arrowwood_(\w+) \*\w+", self.text)
        self.handle = handle[1] if handle and handle[1] in HANDLES else None

    def ctype(self):
        if self.is_pointer or self.is_function:
            return ctypes.c_void_p
        kind = self.text.rsplit(" ", 1)[0]
        narrow = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "double": ctypes.c_double}
        return narrow.get(kind, ctypes.c_uint64)


def functions():
    """Name → result and parameters, of all functions that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    text = re.sub(r"static inline .*?^}", "", text, flags=re.S | re.M)
    found = {}
    for result, name, parameters in re.findall(r"^([\w ]+?[ *]+)(arrowwood_\w+)\(([^;]*)\);", text, re.M):
        parameters = [] if parameters.strip() == "void" else [Parameter(one) for one in parameters.split(",")]
        function = getattr(LIBRARY, name)
        function.argtypes = [parameter.ctype() for parameter in parameters]
        function.restype = {"void": None, "uint32_t": ctypes.c_uint32}.get(result.strip(), ctypes.c_int32)
        if "*" in result:
            function.restype = ctypes.c_char_p
        found[name] = parameters
    return found


FUNCTIONS = functions()
CALLS = 0


def call(name, arguments):
    """The code and the message of a call."""
    global CALLS
    CALLS += 1
    error = Error()
    has_error = getattr(LIBRARY, name).restype is ctypes.c_int32
    if has_error:
        arguments = [*arguments[:-1], ctypes.addressof(error)]
    code = getattr(LIBRARY, name)(*arguments)
    if not has_error:
        return 0, ""
    assert code == error.code and 0 <= code < INTERNAL, (name, arguments, code, error.code, error.message)
    message = (error.message or b"").decode()
    assert (code == 0) == (message == ""), (name, code, message)
    LIBRARY.arrowwood_error_clear(ctypes.byref(error))
    return code, message


def made(name, *arguments):
    """The handle that a function makes."""
    handle, error = ctypes.c_void_p(), Error()
    code = getattr(LIBRARY, name)(*arguments, ctypes.addressof(handle), ctypes.addressof(error))
    assert code == 0, (name, error.message)
    return handle.value


class Room:
    """Zeroed memory for a pointer to point to; kept."""

    kept = []

    def __new__(cls):
        cls.kept.append(ctypes.create_string_buffer(8192))
        return (ctypes.addressof(cls.kept[-1]) + 63) // 64 * 64


def zero(parameter):
    return 0.0 if parameter.ctype() is ctypes.c_double else None if parameter.ctype() is ctypes.c_void_p else 0


def living(folder):
    """A handle of each type. Their memory is never freed here: what frees gets others."""
    schema = Room()
    assert call("arrowwood_schema_parse", [b"n: int64, text: utf8", schema, None])[0] == 0
    table = str(Path(folder) / "table").encode()
    dataset = made("arrowwood_builder_finish", made("arrowwood_builder_new", schema))
    writer = made("arrowwood_writer_open", table, schema, None)
    rows = made("arrowwood_open", table, None)
    return {
        "dataset": dataset,
        "predicate": made("arrowwood_predicate_null", b"n"),
        "writer": writer,
        "follower": made("arrowwood_follow", rows, 0),
        "builder": made("arrowwood_builder_new", schema),
        "chunks": chunks_of(dataset),
    }


def chunks_of(dataset):
    owner = Room()
    assert call("arrowwood_dataset_chunks", [dataset, 0, 0, Room(), Room(), owner, None])[0] == 0
    return ctypes.c_void_p.from_address(owner).value


FREES = re.compile(r"_(free|close|finish)$")
COUNTS = re.compile(r"count|length|depth")


def argument(parameter, handles):
    """A good argument, as far as one can be good without a meaning."""
    if parameter.handle:
        return handles[parameter.handle]
    return Room() if parameter.is_pointer else zero(parameter)


def nothing_at_all():
    for name, parameters in FUNCTIONS.items():
        if name == "arrowwood_leave_sigbus_alone":
            continue
        code, message = call(name, [*map(zero, parameters)])
        assert code == 0 or code == INVALID_ARGUMENT, (name, code, message)
        assert code == 0 or name in message or name == "arrowwood_dataset_concat", (name, message)
        # Without a place for the error, too.
        getattr(LIBRARY, name)(*map(zero, parameters))


def one_pointer_is_bad(handles):
    """NULL, not aligned, a handle of another type: one after the other, all else as good as can be."""
    for name, parameters in FUNCTIONS.items():
        for number, parameter in enumerate(parameters[:-1] if parameters else []):
            if not parameter.is_pointer or (FREES.search(name) and not parameter.handle):
                continue
            good = [argument(one, handles) for one in parameters]
            other = handles["predicate" if parameter.handle != "predicate" else "dataset"]
            bad = [None, other] if parameter.handle else [None]
            # Text and bytes may lie anywhere.
            if "char" not in parameter.text and "void" not in parameter.text:
                bad.append(Room() + 1)
            for pointer in bad:
                code, message = call(name, [*good[:number], pointer, *good[number + 1 :]])
                if parameter.handle and pointer is not None:
                    is_refused = "is no arrowwood_" in message or "is not aligned" in message
                    assert code == INVALID_ARGUMENT and is_refused, (name, message)


def numbers_are_out_of_range(handles):
    for name, parameters in FUNCTIONS.items():
        if FREES.search(name) or "follower_next" in name:
            continue
        for number, parameter in enumerate(parameters):
            if parameter.is_pointer or parameter.is_function:
                continue
            is_float = parameter.ctype() is ctypes.c_double
            bad = [float("nan"), float("inf"), -1.0, 1e300] if is_float else [2**64 - 1, 2**63, 2**31, 2**32 - 1]
            if COUNTS.search(parameter.name):
                bad = [2**64 - 1, 2**63]
            for value in bad:
                good = [argument(one, handles) for one in parameters]
                mask = (1 << 8 * ctypes.sizeof(parameter.ctype())) - 1
                call(name, [*good[:number], value if is_float else value & mask, *good[number + 1 :]])


def structs_without_their_size(folder):
    """Every function with options, or with a struct to fill, by what the struct begins with."""
    path = str(Path(folder) / "table").encode()
    for size, tail, expected in [
        (0, 0, INVALID_ARGUMENT),
        (7, 0, INVALID_ARGUMENT),
        (8, 0, 0),
        (12, 0, 0),
        (4096, 0, 0),
        (4096, 1, UNSUPPORTED),
        (4097, 0, INVALID_ARGUMENT),
        (2**63, 0, INVALID_ARGUMENT),
    ]:
        options = Room()
        ctypes.c_uint64.from_address(options).value = size
        ctypes.c_uint8.from_address(options + 4095).value = tail
        out = Room()
        code, message = call("arrowwood_open", [path, options, out, None])
        assert code == expected, (size, code, message)
        assert code != INVALID_ARGUMENT or ".size" in message, message
        stat = Room()
        ctypes.c_uint64.from_address(stat).value = size
        code, message = call("arrowwood_table_stat", [path, stat, None])
        assert code == (0 if expected == UNSUPPORTED else expected), (size, code, message)
        if code == 0:
            # What the caller doesn't know of is left alone, and so is the size.
            segments = ctypes.c_uint64.from_address(stat + 8).value
            assert ctypes.c_uint64.from_address(stat).value == size and (segments == 1) == (size > 8)


def reserved_members():
    """Struct → its size, and the offset of what has no meaning yet."""
    found = {}
    for body, name in re.findall(r"^typedef struct \w+ {(.*?)^} (\w+);", HEADER, re.S | re.M):
        at = 0
        for member in re.findall(r"([^;]+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S)):
            width = 4 if member.strip().startswith("int32_t ") else 8
            at = (at + width - 1) // width * width
            if member.endswith(" reserved"):
                found[name] = at
            at += width
        if name in found:
            found[name] = ((at + 7) // 8 * 8, found[name])
    return found


def reserved_members_are_not_zero(handles):
    """Every function that gets a struct with a member for later versions."""
    found = reserved_members()
    used = set()
    for name, parameters in FUNCTIONS.items():
        for number, parameter in enumerate(parameters):
            struct = re.fullmatch(r"const (\w+) \*\w+", parameter.text)
            if not struct or struct[1] not in found:
                continue
            used.add(struct[1])
            size, offset = found[struct[1]]
            for value, expected in [(0, False), (1, True)]:
                place = Room()
                # Those without a size are an array, of one.
                if "options" in struct[1]:
                    ctypes.c_uint64.from_address(place).value = size
                ctypes.c_int32.from_address(place + offset).value = value
                good = [None if "ArrowSchema" in one.text else argument(one, handles) for one in parameters]
                good[number] = place
                if COUNTS.search(parameters[number + 1].name):
                    good[number + 1] = 1
                code, message = call(name, good)
                assert (code == UNSUPPORTED and ".reserved' is 1" in message) == expected, (name, code, message)
    assert used == set(found) and len(used) == 4, found


def main():
    with tempfile.TemporaryDirectory() as folder:
        nothing_at_all()
        handles = living(folder)
        one_pointer_is_bad(handles)
        numbers_are_out_of_range(handles)
        structs_without_their_size(folder)
        reserved_members_are_not_zero(handles)
        assert len(FUNCTIONS) > 80 and CALLS > 500
    print(f"{CALLS} calls of {len(FUNCTIONS)} functions: all refused that had to be")


if __name__ == "__main__":
    main()
