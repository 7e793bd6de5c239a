//! The options of an opened dataset, and the information needed to open the same rows in another process.

use std::ffi::OsString;
use std::path::PathBuf;

use arrow_schema::{Field, FieldRef};
use arrowwood::{ErrorKind, OpenOptions, Validation, field_type_name, parse_type};

use crate::errors::{Result, invalid_argument};

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

/// A place as Python has it: path or URL, which is no `Path`, first row, number of rows, columns, and those of the partition.
pub type FileSlice = (OsString, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// A place as Python gives it back: its path may also be a `Path`.
pub type PlaceArg = (PathBuf, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// Name and type of a partition's column, and its value as text.
pub type PartitionColumn = (String, String, Option<String>);
/// The place as the library has it.
pub fn parse_place((path, start, rows, columns, partition): PlaceArg) -> Result<arrowwood::FileSlice> {
    Ok(arrowwood::FileSlice { path, start, rows, columns, partition: parse_partition(partition)? })
}

/// Columns of a partition as the library has them.
pub fn parse_partition(partition: Vec<PartitionColumn>) -> Result<Vec<(FieldRef, Option<String>)>> {
    let column = |(name, data_type, text): PartitionColumn| {
        Ok((FieldRef::new(Field::new(name, parse_type(&data_type)?, true)), text))
    };
    Ok(partition.into_iter().map(column).collect::<arrowwood::Result<_>>()?)
}

/// The arguments of `open` as Python has them.
pub type OpenArgsTuple = (&'static str, bool, bool, bool);

/// The names of a dataset's columns, if they are other ones than in its files.
pub fn renamed_columns(dataset: &arrowwood::Dataset) -> Option<Vec<String>> {
    let names = || dataset.schema().fields().iter().map(|field| field.name().clone()).collect();
    dataset.is_renamed().then(names)
}

/// The information needed to open the rows of a dataset elsewhere; `None` if they are in memory.
pub fn reopen_args(dataset: &arrowwood::Dataset, how: OpenArgs) -> Result<Option<(Vec<FileSlice>, OpenArgsTuple)>> {
    let places = match dataset.file_slices() {
        Ok(places) => places,
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let partition = |(field, text): (FieldRef, Option<String>)| (field.name().clone(), field_type_name(&field), text);
    let places = places.into_iter().map(|place| {
        let partition = place.partition.into_iter().map(partition).collect();
        (place.path.into_os_string(), place.start, place.rows, place.columns, partition)
    });
    let validate = match how.validate {
        Validation::Full => "full",
        Validation::Lazy => "lazy",
    };
    Ok(Some((places.collect(), (validate, how.copy, how.strict, how.partial))))
}
