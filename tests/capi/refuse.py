"""Calls every function of the C header with invalid arguments: `refuse.py LIBRARY HEADER`.

The prototypes are read from the header, so no function is forgotten. Each call must return, with success where NULL and
zeros are valid arguments, and otherwise with the code of an error that is no defect of the library.
"""

import ctypes
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

LIBRARY, HEADER = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]).read_text()
INVALID_ARGUMENT, UNSUPPORTED, INTERNAL = 8, 4, 14
HANDLES = ["dataset", "predicate", "writer", "follower", "builder", "chunks"]
MAX_STRUCT_SIZE = 4096


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("os_error", ctypes.c_int32), ("message", ctypes.c_char_p)]


class Parameter:
    """A parameter of a function, parsed from its declaration."""

    def __init__(self, text):
        self.text = text.strip()
        name = re.search(r"\(\*(\w+)\)|(\w+)$", self.text)
        self.name = name[1] or name[2]
        self.is_function = "(*" in self.text or self.text.startswith("arrowwood_progress ")
        self.is_pointer = "*" in self.text and not self.is_function
        handle = re.fullmatch(r"(?:const )?arrowwood_(\w+) \*\w+", self.text)
        # The type of a handle, such as "dataset", or None.
        self.handle = handle[1] if handle and handle[1] in HANDLES else None

    def ctype(self):
        if self.is_pointer or self.is_function:
            return ctypes.c_void_p
        type_name = self.text.rsplit(" ", 1)[0]
        types = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "double": ctypes.c_double}
        return types.get(type_name, ctypes.c_uint64)

    def zero(self):
        if self.ctype() is ctypes.c_double:
            return 0.0
        return None if self.ctype() is ctypes.c_void_p else 0


def parse_functions() -> dict[str, list[Parameter]]:
    """Returns the parameters of all functions in the header, and sets the argument types of the library's functions."""
    text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    text = re.sub(r"static inline .*?^}", "", text, flags=re.S | re.M)
    functions = {}
    for result, name, parameters in re.findall(r"^([\w ]+?[ *]+)(arrowwood_\w+)\(([^;]*)\);", text, re.M):
        parameters = [] if parameters.strip() == "void" else [Parameter(part) for part in parameters.split(",")]
        function = getattr(LIBRARY, name)
        function.argtypes = [parameter.ctype() for parameter in parameters]
        function.restype = {"void": None, "uint32_t": ctypes.c_uint32}.get(result.strip(), ctypes.c_int32)
        if "*" in result:
            function.restype = ctypes.c_char_p
        functions[name] = parameters
    return functions


FUNCTIONS = parse_functions()
CALLS = 0


def call(name, arguments):
    """Calls a function that returns a code, and returns the code and the message of the error.

    Fails if the code is that of a defect, or differs from the code in the error.
    """
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


def create_handle(name, *arguments):
    """Calls a function that must succeed, and returns the handle that it creates."""
    handle, error = ctypes.c_void_p(), Error()
    code = getattr(LIBRARY, name)(*arguments, ctypes.addressof(handle), ctypes.addressof(error))
    assert code == 0, (name, error.message)
    return handle.value


# Keeps the memory that pointers refer to.
BUFFERS = []


def zeroed_memory():
    """Returns the address of zeroed memory, large enough for any struct, and aligned to 64 bytes."""
    BUFFERS.append(ctypes.create_string_buffer(2 * MAX_STRUCT_SIZE))
    return (ctypes.addressof(BUFFERS[-1]) + 63) // 64 * 64


def create_handles(folder):
    """Returns a handle of each type. They are never freed, as functions that free get invalid handles only."""
    schema = zeroed_memory()
    assert call("arrowwood_schema_parse", [b"n: int64, text: utf8", schema, None])[0] == 0
    table = str(Path(folder) / "table").encode()
    dataset = create_handle("arrowwood_builder_finish", create_handle("arrowwood_builder_new", schema))
    writer = create_handle("arrowwood_writer_open", table, schema, None)
    rows = create_handle("arrowwood_open", table, None)
    return {
        "dataset": dataset,
        "predicate": create_handle("arrowwood_predicate_null", b"n"),
        "writer": writer,
        "follower": create_handle("arrowwood_follow", rows, 0),
        "builder": create_handle("arrowwood_builder_new", schema),
        "chunks": create_chunks(dataset),
    }


def create_chunks(dataset):
    owner = zeroed_memory()
    arguments = [dataset, 0, 0, zeroed_memory(), zeroed_memory(), owner, None]
    assert call("arrowwood_dataset_chunks", arguments)[0] == 0
    return ctypes.c_void_p.from_address(owner).value


FREES = re.compile(r"_(free|close|finish)$")
COUNTS = re.compile(r"count|length|depth")


def valid_argument(parameter, handles):
    """Returns a handle, zeroed memory or zero, whichever the parameter takes."""
    if parameter.handle:
        return handles[parameter.handle]
    return zeroed_memory() if parameter.is_pointer else parameter.zero()


def test_null_and_zeros():
    for name, parameters in FUNCTIONS.items():
        if name == "arrowwood_leave_sigbus_alone":
            continue
        arguments = [parameter.zero() for parameter in parameters]
        code, message = call(name, arguments)
        assert code == 0 or code == INVALID_ARGUMENT, (name, code, message)
        assert code == 0 or name in message or name == "arrowwood_dataset_concat", (name, message)
        # A NULL pointer for the error is allowed.
        getattr(LIBRARY, name)(*arguments)


def test_invalid_pointers(handles):
    """Passes NULL, unaligned pointers and handles of another type, one at a time among valid arguments."""
    for name, parameters in FUNCTIONS.items():
        for index, parameter in enumerate(parameters[:-1] if parameters else []):
            if not parameter.is_pointer or (FREES.search(name) and not parameter.handle):
                continue
            arguments = [valid_argument(other, handles) for other in parameters]
            invalid_pointers = [None]
            if parameter.handle:
                invalid_pointers.append(handles["predicate" if parameter.handle != "predicate" else "dataset"])
            # Text and bytes need no alignment.
            if "char" not in parameter.text and "void" not in parameter.text:
                invalid_pointers.append(zeroed_memory() + 1)
            for pointer in invalid_pointers:
                code, message = call(name, [*arguments[:index], pointer, *arguments[index + 1 :]])
                if parameter.handle and pointer is not None:
                    is_refused = "is no arrowwood_" in message or "is not aligned" in message
                    assert code == INVALID_ARGUMENT and is_refused, (name, message)


def test_extreme_numbers(handles):
    for name, parameters in FUNCTIONS.items():
        if FREES.search(name) or "follower_next" in name:
            continue
        for index, parameter in enumerate(parameters):
            if parameter.is_pointer or parameter.is_function:
                continue
            is_float = parameter.ctype() is ctypes.c_double
            if COUNTS.search(parameter.name):
                numbers = [2**64 - 1, 2**63]
            elif is_float:
                numbers = [float("nan"), float("inf"), -1.0, 1e300]
            else:
                numbers = [2**64 - 1, 2**63, 2**31, 2**32 - 1]
            mask = (1 << 8 * ctypes.sizeof(parameter.ctype())) - 1
            for number in numbers:
                arguments = [valid_argument(other, handles) for other in parameters]
                arguments[index] = number if is_float else number & mask
                call(name, arguments)


def test_struct_sizes(folder):
    """Passes structs with different values of their first member, `size`, to functions that read and fill structs."""
    path = str(Path(folder) / "table").encode()
    # The size, the last byte of the struct, and the expected code.
    for size, last_byte, expected in [
        (0, 0, INVALID_ARGUMENT),
        (7, 0, INVALID_ARGUMENT),
        (8, 0, 0),
        (12, 0, 0),
        (MAX_STRUCT_SIZE, 0, 0),
        (MAX_STRUCT_SIZE, 1, UNSUPPORTED),
        (MAX_STRUCT_SIZE + 1, 0, INVALID_ARGUMENT),
        (2**63, 0, INVALID_ARGUMENT),
    ]:
        options = zeroed_memory()
        ctypes.c_uint64.from_address(options).value = size
        ctypes.c_uint8.from_address(options + MAX_STRUCT_SIZE - 1).value = last_byte
        code, message = call("arrowwood_open", [path, options, zeroed_memory(), None])
        assert code == expected, (size, code, message)
        assert code != INVALID_ARGUMENT or ".size" in message, message
        stat = zeroed_memory()
        ctypes.c_uint64.from_address(stat).value = size
        code, message = call("arrowwood_table_stat", [path, stat, None])
        assert code == (0 if expected == UNSUPPORTED else expected), (size, code, message)
        if code == 0:
            # The size, and members beyond it, must not be written.
            segments = ctypes.c_uint64.from_address(stat + 8).value
            assert ctypes.c_uint64.from_address(stat).value == size and (segments == 1) == (size > 8)


class ReservedMember(NamedTuple):
    struct_size: int
    offset: int


def parse_reserved_members() -> dict[str, ReservedMember]:
    """Returns the structs of the header that have a member `reserved`, by name."""
    members = {}
    for body, name in re.findall(r"^typedef struct \w+ {(.*?)^} (\w+);", HEADER, re.S | re.M):
        offset = 0
        reserved_offset = None
        for member in re.findall(r"([^;]+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S)):
            width = 4 if member.strip().startswith("int32_t ") else 8
            offset = (offset + width - 1) // width * width
            if member.endswith(" reserved"):
                reserved_offset = offset
            offset += width
        if reserved_offset is not None:
            members[name] = ReservedMember((offset + 7) // 8 * 8, reserved_offset)
    return members


def test_reserved_members(handles):
    """Passes structs whose reserved member is not zero to every function that takes one."""
    reserved = parse_reserved_members()
    tested = set()
    for name, parameters in FUNCTIONS.items():
        for index, parameter in enumerate(parameters):
            struct = re.fullmatch(r"const (\w+) \*\w+", parameter.text)
            if not struct or struct[1] not in reserved:
                continue
            tested.add(struct[1])
            member = reserved[struct[1]]
            for value, is_refused in [(0, False), (1, True)]:
                address = zeroed_memory()
                # Structs without a size are elements of an array.
                if "options" in struct[1]:
                    ctypes.c_uint64.from_address(address).value = member.struct_size
                ctypes.c_int32.from_address(address + member.offset).value = value
                arguments = []
                for other in parameters:
                    arguments.append(None if "ArrowSchema" in other.text else valid_argument(other, handles))
                arguments[index] = address
                if COUNTS.search(parameters[index + 1].name):
                    arguments[index + 1] = 1
                code, message = call(name, arguments)
                assert (code == UNSUPPORTED and ".reserved' is 1" in message) == is_refused, (name, code, message)
    assert tested == set(reserved) and len(tested) == 4, reserved


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_null_and_zeros()
        handles = create_handles(folder)
        test_invalid_pointers(handles)
        test_extreme_numbers(handles)
        test_struct_sizes(folder)
        test_reserved_members(handles)
        assert len(FUNCTIONS) > 80 and CALLS > 500
    print(f"{CALLS} calls of {len(FUNCTIONS)} functions: all refused that had to be")


if __name__ == "__main__":
    main()
