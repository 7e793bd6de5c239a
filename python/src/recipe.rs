//! How a dataset was opened, and what it takes to open the same rows in another process.

use std::path::PathBuf;

use arrowwood::{ErrorKind, Open, Validate};

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

/// A place as Python has it: path, first row, number of rows, columns.
pub type Place = (PathBuf, u64, u64, Vec<usize>);
/// The arguments of `open` as Python has them.
pub type Arguments = (&'static str, bool, bool, bool);

/// What it takes to open the rows of a dataset elsewhere; `None` where they are in memory.
pub fn recipe(dataset: &arrowwood::Dataset, how: How) -> Result<Option<(Vec<Place>, Arguments)>> {
    let places = match dataset.places() {
        Ok(places) => places,
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let places = places.into_iter().map(|place| (place.path, place.start, place.rows, place.columns));
    let validate = match how.validate {
        Validate::Full => "full",
        Validate::Lazy => "lazy",
    };
    Ok(Some((places.collect(), (validate, how.copy, how.strict, how.partial))))
}
