"""Defines the exceptions of arrowwood: one class for each kind of error, all subclasses of :class:`Error`.

Each also extends the built-in exception that fits, so ``except FileNotFoundError`` works too.
"""


class Error(Exception):
    """Any error of arrowwood.

    Attributes:
        path: the path the error is about, or ``None``.
        errno: the operating system's number for the error, or ``None``.
    """

    def __init__(self, message: str = "", path: str | None = None, errno: int | None = None) -> None:
        from arrowwood import _arrowwood

        # URLs in messages may contain passwords and signatures.
        super().__init__(_arrowwood._without_secrets(message))
        self.path: str | None = path
        # OSError has slots of its own for these two, which must be set after its __init__.
        self.errno: int | None = errno
        self.filename: str | None = path

    # KeyError would quote the message, and OSError would add number and path. Names of columns and files in it may
    # contain control characters.
    def __str__(self) -> str:
        from arrowwood import _arrowwood

        return _arrowwood._visible(str(self.args[0])) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.path, self.errno)


class NotFound(Error, FileNotFoundError):
    """The path, or every path of a list or glob, does not exist."""


class PermissionDenied(Error, PermissionError):
    """The operating system refused access."""


class InvalidData(Error, ValueError):
    """The bytes violate the Arrow format, or are not Arrow data."""


class Unsupported(Error, NotImplementedError):
    """Valid Arrow data, or a valid request, that this version does not support."""


class SchemaMismatch(Error, ValueError):
    """Two schemas that must agree differ."""


class ColumnNotFound(Error, KeyError):
    """There is no column of that name or number."""


class RowOutOfRange(Error, IndexError):
    """There is no row, or element, of that number."""


class InvalidArgument(Error, ValueError):
    """An argument has an invalid value."""


class Closed(Error, ValueError):
    """The mapping was closed."""


class Busy(Error, BufferError):
    """The resource is in use."""


class FileChanged(Error, OSError):
    """A mapped file was truncated, overwritten or replaced."""


class CopyNeeded(Error, ValueError):
    """Zero-copy access was required, but a buffer had to be copied."""


class IoError(Error, OSError):
    """Any other error of the operating system."""


class OutOfMemory(IoError, MemoryError):
    """Memory is short."""


class InternalError(Error, RuntimeError):
    """An invariant of the library is broken, which is a bug. The operation was stopped."""


# Tracebacks should show the names that users import.
for _class in [Error, *Error.__subclasses__(), OutOfMemory]:
    _class.__module__ = "arrowwood"
