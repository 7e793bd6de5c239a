//! The options of an opened dataset, and the information needed to open the same rows in another process.

use std::ffi::OsString;
use std::path::PathBuf;

use arrow_schema::{Field, FieldRef};
use arrowwood::{ErrorKind, OpenOptions, Validation, field_type_name, parse_type};

use crate::interpreter::errors::{Result, invalid_argument};

/// How a dataset was opened.
#[derive(Clone, Copy, Default)]
pub struct OpenArgs {
    validate: Validation,
    copy: bool,
    strict: bool,
    partial: bool,
}

impl OpenArgs {
    /// The arguments of `open` as Python has them.
    pub fn new(validate: &str, copy: bool, strict: bool, partial: bool) -> Result<OpenArgs> {
        let validate = match validate {
            "lazy" => Validation::Lazy,
            "full" => Validation::Full,
            other => return Err(invalid_argument(format!("validate must be 'lazy' or 'full', got '{other}'"))),
        };
        Ok(OpenArgs { validate, copy, strict, partial })
    }

    pub fn open(self) -> OpenOptions {
        OpenOptions::new().validate(self.validate).copy(self.copy).strict(self.strict).partial(self.partial)
    }
}

/// A slice of a file as Python has it: path or URL, which is no `Path`, first row, number of rows, columns, and the
/// columns of the partition.
pub type FileSlice = (OsString, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// A slice of a file as Python gives it back: its path may also be a `Path`.
pub type PlaceArg = (PathBuf, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// Name and type of a partition's column, and its value as text.
pub type PartitionColumn = (String, String, Option<String>);
/// Converts the slice from Python's form to the library's.
pub fn parse_place((path, start, rows, columns, partition): PlaceArg) -> Result<arrowwood::FileSlice> {
    Ok(arrowwood::FileSlice { path, start, rows, columns, partition: parse_partition(partition)? })
}

/// Converts the columns of a partition from Python's form to the library's.
pub fn parse_partition(partition: Vec<PartitionColumn>) -> Result<Vec<(FieldRef, Option<String>)>> {
    let mut columns = Vec::with_capacity(partition.len());
    for (name, data_type, text) in partition {
        columns.push((FieldRef::new(Field::new(name, parse_type(&data_type)?, true)), text));
    }
    Ok(columns)
}

/// The arguments of `open` as Python has them.
pub type OpenArgsTuple = (&'static str, bool, bool, bool);

/// Returns the names of a dataset's columns, if they are other ones than in its files.
pub fn renamed_columns(dataset: &arrowwood::Dataset) -> Option<Vec<String>> {
    if !dataset.is_renamed() {
        return None;
    }
    Some(dataset.schema().fields().iter().map(|field| field.name().clone()).collect())
}

/// Returns the information needed to open the rows of a dataset elsewhere; `None` if they are in memory.
pub fn reopen_args(dataset: &arrowwood::Dataset, how: OpenArgs) -> Result<Option<(Vec<FileSlice>, OpenArgsTuple)>> {
    let places = match dataset.file_slices() {
        Ok(places) => places,
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let places = places.into_iter().map(|slice| {
        let partition = slice.partition.into_iter();
        let partition = partition.map(|(field, text)| (field.name().clone(), field_type_name(&field), text)).collect();
        (slice.path.into_os_string(), slice.start, slice.rows, slice.columns, partition)
    });
    let validate = match how.validate {
        Validation::Full => "full",
        Validation::Lazy => "lazy",
    };
    Ok(Some((places.collect(), (validate, how.copy, how.strict, how.partial))))
}
