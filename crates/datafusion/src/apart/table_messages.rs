//! Rows of files on their way to another process: where they are, so that it opens the same.

use std::path::Path;

use arrowwood::{Dataset, Error, ErrorKind, FileSlice, OpenOptions, Result};
use datafusion::arrow::datatypes::Schema;

use crate::apart::messages::{
    PlaceMessage, RowsMessage, ValueMessage, VersionMessage, bytes_of, path_of, schema_bytes, schema_of,
};

fn broken(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("passing columns on: {error}"))
}

/// Returns how another process opens `rows`, which are the table at `path` if one is given.
///
/// # Errors
/// Errors of reading them; `Unsupported` for rows that are in no file.
pub(crate) fn rows_message(rows: &Dataset, path: Option<&Path>) -> Result<RowsMessage> {
    let places = if rows.is_empty()? { Vec::new() } else { rows.file_slices()? };
    let mut versions = Vec::new();
    for (path, version) in rows.versions() {
        versions.push(VersionMessage { path: bytes_of(&path), version });
    }
    Ok(RowsMessage {
        schema: schema_bytes(rows.schema()).map_err(broken)?,
        path: path.map(bytes_of),
        places: places.iter().map(place).collect::<Result<_>>()?,
        versions,
    })
}

fn place(place: &FileSlice) -> Result<PlaceMessage> {
    let fields: Vec<_> = place.partition.iter().map(|(field, _)| field.clone()).collect();
    let keys = if fields.is_empty() { None } else { Some(schema_bytes(&Schema::new(fields)).map_err(broken)?) };
    let columns = place.columns.iter().map(|column| u32::try_from(*column).map_err(broken));
    Ok(PlaceMessage {
        path: bytes_of(&place.path),
        start: place.start,
        rows: place.rows,
        columns: columns.collect::<Result<_>>()?,
        keys,
        values: place.partition.iter().map(|(_, text)| ValueMessage { text: text.clone() }).collect(),
    })
}

fn place_of(message: &PlaceMessage) -> Result<FileSlice> {
    let keys = message.keys.as_ref().map(|keys| schema_of(keys).map_err(broken)).transpose()?;
    let fields = keys.iter().flat_map(|keys| keys.fields().iter().cloned());
    Ok(FileSlice {
        path: path_of(&message.path),
        start: message.start,
        rows: message.rows,
        columns: message.columns.iter().map(|column| *column as usize).collect(),
        partition: fields.zip(message.values.iter().map(|value| value.text.clone())).collect(),
    })
}

/// Opens the rows in this process.
///
/// # Errors
/// Errors of opening them; `FileChanged` if they are not there any more.
pub(crate) fn opened(message: &RowsMessage) -> Result<Dataset> {
    let schema = schema_of(&message.schema).map_err(broken)?;
    if message.places.is_empty() {
        return Dataset::from_batches(schema, Vec::new());
    }
    let places = message.places.iter().map(place_of).collect::<Result<Vec<_>>>()?;
    let path = message.path.as_ref().map(|path| path_of(path));
    // A table that is opened as a whole knows its partitions.
    let whole = path.as_ref().and_then(|path| arrowwood::open(path).ok()).filter(|whole| {
        whole.schema().fields() == schema.fields() && whole.file_slices().is_ok_and(|found| found == places)
    });
    let rows = match whole {
        Some(whole) => whole,
        None => OpenOptions::new().file_slices(&places)?,
    };
    let versions: Vec<_> = message.versions.iter().map(|known| (path_of(&known.path), known.version.clone())).collect();
    rows.check_versions(&versions)?;
    if rows.schema().fields() != schema.fields() {
        return Err(changed(path.as_deref().unwrap_or(&places[0].path)));
    }
    Ok(rows)
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::FileChanged, "its columns have changed since the query began; ask again").at(path)
}

/// Returns true if rows were dropped or replaced while they were opened, so that another attempt finds newer ones.
pub(crate) fn is_worth_another(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::RowOutOfRange | ErrorKind::FileChanged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrowwood::{Writer, WriterOptions};
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    fn batch(first: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 100));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
    }

    #[test]
    fn later_rows_are_none_of_those_that_were_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut writer = Writer::open(&path, Some(batch(0).schema()), &WriterOptions::default()).unwrap();
        let none = arrowwood::open(&path).unwrap();
        let empty = opened(&rows_message(&none, Some(&path)).unwrap()).unwrap();
        assert_eq!((empty.len().unwrap(), empty.schema()), (0, none.schema()));
        writer.append(&batch(0)).unwrap();
        writer.commit().unwrap();
        let rows = arrowwood::open(&path).unwrap();
        let message = rows_message(&rows, Some(&path)).unwrap();
        assert_eq!(opened(&message).unwrap().len().unwrap(), 100);
        writer.append(&batch(100)).unwrap();
        writer.commit().unwrap();
        let reopened = opened(&message).unwrap();
        assert_eq!(reopened.len().unwrap(), 100);
        assert!(arrowwood::rows_equal(&reopened, &rows).unwrap());
        // Another table at the same place has others.
        writer.close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let mut writer = Writer::open(&path, Some(batch(0).schema()), &WriterOptions::default()).unwrap();
        writer.append(&batch(500)).unwrap();
        writer.commit().unwrap();
        let error = opened(&message).unwrap_err();
        assert!(is_worth_another(&error), "{error:?}");
    }

    #[test]
    fn rows_in_no_file_are_not_passed_on() {
        let rows = Dataset::from_batches(batch(0).schema(), vec![batch(0)]).unwrap();
        assert_eq!(rows_message(&rows, None).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
