//! Types of elements in a [`Mapping`](crate::exchange::mapping::Mapping), named as NumPy names them.

use std::ffi::CStr;

use arrowwood::Element;
use half::f16;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::arguments::describe::describe_object;
use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::py_call::CallPy;

/// A fixed-width, little-endian number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
}

/// The names of a type.
struct DtypeNames {
    dtype: Dtype,
    /// NumPy's name.
    name: &'static str,
    /// NumPy's code for kind and width.
    code: &'static str,
    /// The code of Python's `struct` module.
    format: &'static CStr,
}

impl DtypeNames {
    const fn new(dtype: Dtype, name: &'static str, code: &'static str, format: &'static CStr) -> DtypeNames {
        DtypeNames { dtype, name, code, format }
    }
}

/// The names of all types, in the order of [`Dtype`].
static TABLE: [DtypeNames; 12] = [
    DtypeNames::new(Dtype::Bool, "bool", "b1", c"?"),
    DtypeNames::new(Dtype::Int8, "int8", "i1", c"b"),
    DtypeNames::new(Dtype::Int16, "int16", "i2", c"h"),
    DtypeNames::new(Dtype::Int32, "int32", "i4", c"i"),
    DtypeNames::new(Dtype::Int64, "int64", "i8", c"q"),
    DtypeNames::new(Dtype::UInt8, "uint8", "u1", c"B"),
    DtypeNames::new(Dtype::UInt16, "uint16", "u2", c"H"),
    DtypeNames::new(Dtype::UInt32, "uint32", "u4", c"I"),
    DtypeNames::new(Dtype::UInt64, "uint64", "u8", c"Q"),
    DtypeNames::new(Dtype::Float16, "float16", "f2", c"e"),
    DtypeNames::new(Dtype::Float32, "float32", "f4", c"f"),
    DtypeNames::new(Dtype::Float64, "float64", "f8", c"d"),
];

/// Runs `$body` with `$T` standing for the Rust type of the elements.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use $crate::exchange::dtype::{BoolByte, Dtype, Half};
        macro_rules! run {
            ($real:ty) => {{
                type $T = $real;
                $body
            }};
        }
        match $dtype {
            Dtype::Bool => run!(BoolByte),
            Dtype::Int8 => run!(i8),
            Dtype::Int16 => run!(i16),
            Dtype::Int32 => run!(i32),
            Dtype::Int64 => run!(i64),
            Dtype::UInt8 => run!(u8),
            Dtype::UInt16 => run!(u16),
            Dtype::UInt32 => run!(u32),
            Dtype::UInt64 => run!(u64),
            Dtype::Float16 => run!(Half),
            Dtype::Float32 => run!(f32),
            Dtype::Float64 => run!(f64),
        }
    }};
}
pub(crate) use with_type;

impl Dtype {
    /// Parses a name (`"float64"`), a code (`"<f8"`) or anything that NumPy accepts as a dtype.
    pub fn parse(object: &Bound<'_, PyAny>) -> Result<Dtype> {
        let text: String = match object.cast::<PyString>() {
            Ok(text) => text.extract()?,
            Err(_) => object.py().import("numpy")?.getattr("dtype")?.call_py((object,))?.getattr("str")?.extract()?,
        };
        Dtype::named(&text).ok_or_else(|| {
            let names: Vec<_> = TABLE.iter().map(|names| names.name).collect();
            invalid_argument(format!("dtype must be one of {}, in little-endian order; got '{text}'", names.join(", ")))
        })
    }

    fn named(text: &str) -> Option<Dtype> {
        let code = text.strip_prefix(['<', '=', '|']).unwrap_or(text);
        TABLE.iter().find(|names| names.name == text || names.code == code).map(|names| names.dtype)
    }

    fn names(self) -> &'static DtypeNames {
        // The table is in the order of the enum.
        &TABLE[self as usize]
    }

    /// Returns NumPy's name.
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// Returns the code of Python's `struct` module, as the buffer protocol wants it.
    pub fn format(self) -> &'static CStr {
        self.names().format
    }

    /// Returns the number of bytes of an element.
    pub fn width(self) -> usize {
        with_type!(self, T => <T as Element>::WIDTH)
    }

    /// Returns true if a buffer of `struct` code `format` and `width` bytes per item holds elements of this very type.
    pub fn is_format(self, format: &str, width: usize) -> bool {
        let code = format.strip_prefix(['<', '=', '@']).unwrap_or(format);
        // One width has several letters ('l' and 'q'), so only the kind of the letter counts.
        let kind = match code {
            "?" => 'b',
            "b" | "h" | "i" | "l" | "q" | "n" => 'i',
            "B" | "H" | "I" | "L" | "Q" | "N" => 'u',
            "e" | "f" | "d" => 'f',
            _ => return false,
        };
        self.names().code.starts_with(kind) && self.width() == width
    }
}

/// An element that can be had as a Python object, and made of one.
pub trait PyElement: Element {
    /// Converts the element to `bool`, `int` or `float`.
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
    /// Converts `object`, of the wider Python type, to an element.
    fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self>;
}

/// Converts `object` to an element; an `InvalidArgument` says that it is too large.
pub fn element<T: PyElement>(object: &Bound<'_, PyAny>, dtype: Dtype) -> Result<T> {
    let element = T::from_object(object).map_err(|problem| {
        if problem.is_instance_of::<PyOverflowError>(object.py()) {
            invalid_argument(format!("{object} does not fit into {}", dtype.name()))
        } else {
            problem.into()
        }
    })?;
    let is_short = matches!(dtype, Dtype::Float16 | Dtype::Float32);
    if is_short && object.extract::<f64>()?.is_finite() && !element.object(object.py())?.extract::<f64>()?.is_finite() {
        return Err(invalid_argument(format!("{object} does not fit into {}", dtype.name())));
    }
    Ok(element)
}

macro_rules! items {
    ($($type:ty),*) => {$(
        impl PyElement for $type {
            fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                self.into_bound_py_any(py)
            }
            fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
                object.extract()
            }
        }
    )*};
}
items!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// A byte that is false when 0.
#[derive(Clone, Copy)]
pub struct BoolByte(bool);

impl Element for BoolByte {
    const WIDTH: usize = 1;
    fn from_bytes(bytes: &[u8]) -> Self {
        BoolByte(bytes != [0])
    }
    fn to_bytes(self, bytes: &mut [u8]) {
        bytes.fill(self.0.into());
    }
}

impl PyElement for BoolByte {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(PyBool::new(py, self.0).to_owned().into_any())
    }
    fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // From a boolean, or a number: not from text, None and other objects with a truth value.
        match object.extract::<f64>() {
            Ok(0.0) => Ok(BoolByte(false)),
            Ok(1.0) => Ok(BoolByte(true)),
            _ => Err(PyTypeError::new_err(format!("expected a bool, 0 or 1, got {}", describe_object(object)))),
        }
    }
}

/// A float of 16 bits.
#[derive(Clone, Copy)]
pub struct Half(f16);

impl Element for Half {
    const WIDTH: usize = 2;
    fn from_bytes(bytes: &[u8]) -> Self {
        Half(f16::from_bits(u16::from_bytes(bytes)))
    }
    fn to_bytes(self, bytes: &mut [u8]) {
        self.0.to_bits().to_bytes(bytes);
    }
}

impl PyElement for Half {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        self.0.to_f64().into_bound_py_any(py)
    }
    fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        object.extract().map(|wide| Half(f16::from_f64(wide)))
    }
}
