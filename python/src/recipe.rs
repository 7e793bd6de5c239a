//! The options of an opened dataset, and the information needed to open the same rows in another process.

use std::ffi::OsString;
use std::path::PathBuf;

use arrow_schema::{Field, FieldRef};
use arrowwood::{ErrorKind, Open, Validate, field_type_name, parse_type};

use crate::errors::{Result, argument};

/// How a dataset was opened.
#[derive(Clone, Copy, Default)]
pub struct How {
    validate: Validate,
    copy: bool,
    strict: bool,
    partial: bool,
}

impl How {
    /// The arguments of `open` as Python has them.
    pub fn new(validate: &str, copy: bool, strict: bool, partial: bool) -> Result<How> {
        let validate = match validate {
            "lazy" => Validate::Lazy,
            "full" => Validate::Full,
            other => return Err(argument(format!("validate must be 'lazy' or 'full', got '{other}'"))),
        };
        Ok(How { validate, copy, strict, partial })
    }

    pub fn open(self) -> Open {
        Open::new().validate(self.validate).copy(self.copy).strict(self.strict).partial(self.partial)
    }
}

/// A place as Python has it: path or URL, which is no `Path`, first row, number of rows, columns, and those of the partition.
pub type Place = (OsString, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// A place as Python gives it back: its path may also be a `Path`.
pub type GivenPlace = (PathBuf, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// Name and type of a partition's column, and its value as text.
pub type PartitionColumn = (String, String, Option<String>);
/// The place as the library has it.
pub fn place_of((path, start, rows, columns, partition): GivenPlace) -> Result<arrowwood::Place> {
    Ok(arrowwood::Place { path, start, rows, columns, partition: partition_of(partition)? })
}

/// Columns of a partition as the library has them.
pub fn partition_of(partition: Vec<PartitionColumn>) -> Result<Vec<(FieldRef, Option<String>)>> {
    let column = |(name, data_type, text): PartitionColumn| {
        Ok((FieldRef::new(Field::new(name, parse_type(&data_type)?, true)), text))
    };
    Ok(partition.into_iter().map(column).collect::<arrowwood::Result<_>>()?)
}

/// The arguments of `open` as Python has them.
pub type Arguments = (&'static str, bool, bool, bool);

/// The names of a dataset's columns, if they are other ones than in its files.
pub fn new_names(dataset: &arrowwood::Dataset) -> Option<Vec<String>> {
    let names = || dataset.schema().fields().iter().map(|field| field.name().clone()).collect();
    dataset.is_renamed().then(names)
}

/// The information needed to open the rows of a dataset elsewhere; `None` if they are in memory.
pub fn recipe(dataset: &arrowwood::Dataset, how: How) -> Result<Option<(Vec<Place>, Arguments)>> {
    let places = match dataset.places() {
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
        Validate::Full => "full",
        Validate::Lazy => "lazy",
    };
    Ok(Some((places.collect(), (validate, how.copy, how.strict, how.partial))))
}
