"""The exceptions of arrowwood: one class for each kind of error, all of them subclasses of :class:`Error`.

Each is a subclass of the built-in exception that fits as well, so ``except FileNotFoundError`` works too.
"""


class Error(Exception):
    """Any error of arrowwood.

    Attributes:
        path: the path the error is about, or ``None``.
        errno: the operating system's number for the error, or ``None``.
    """

    def __init__(self, message: str = "", path: str | None = None, errno: int | None = None) -> None:
        super().__init__(message)
        self.path: str | None = path
        # OSError has slots of its own for these two, which must be set behind its __init__.
        self.errno: int | None = errno
        self.filename: str | None = path

    # KeyError would quote the message and OSError would put number and path around it. Names of columns and files stand
    # in it, which may hold what commands a terminal.
    def __str__(self) -> str:
        from arrowwood import _arrowwood

        return _arrowwood._visible(str(self.args[0])) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.path, self.errno)


class NotFound(Error, FileNotFoundError):
    """The path, or every path of a list or glob, is not there."""


class PermissionDenied(Error, PermissionError):
    """The operating system refused access."""


class InvalidData(Error, ValueError):
    """The bytes are not what the Arrow format says they must be, or not Arrow at all."""


class Unsupported(Error, NotImplementedError):
    """Legal Arrow, but this version cannot do it."""


class SchemaMismatch(Error, ValueError):
    """Two schemas that must agree do not."""


class ColumnNotFound(Error, KeyError):
    """No column of that name or number."""


class RowOutOfRange(Error, IndexError):
    """No row, or element, of that number."""


class InvalidArgument(Error, ValueError):
    """An argument has a value that makes no sense here."""


class Closed(Error, ValueError):
    """The mapping was closed."""


class Busy(Error, BufferError):
    """Something still uses what was to be closed."""


class FileChanged(Error, OSError):
    """The file changed under a mapping that relies on it staying as it was."""


class CopyNeeded(Error, ValueError):
    """Zero-copy was demanded, and a buffer could not be had without a copy."""


class IoError(Error, OSError):
    """Any other failure of the operating system."""


class InternalError(Error, RuntimeError):
    """Something that the library relies on is not so: a bug in it. What was being done was stopped."""


# Tracebacks show the names that users write.
for _class in [Error, *Error.__subclasses__()]:
    _class.__module__ = "arrowwood"
