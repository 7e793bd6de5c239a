//! Sends rows of files to another process, as the files and ranges that it opens to get the same rows.

use std::path::Path;

use arrowwood::{Dataset, Error, ErrorKind, FileSlice, OpenOptions, Result};
use datafusion::arrow::datatypes::Schema;

use crate::processes::messages::{
    RowsMessage, SliceMessage, ValueMessage, VersionMessage, decode_schema, encode_schema, path_from_bytes,
    path_to_bytes,
};

fn schema_error(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("passing columns on: {error}"))
}

/// Returns the message by which another process opens `rows`. They are the table at `path`, if there is one.
///
/// # Errors
/// Errors of reading the rows; `Unsupported` for rows that are not in files.
pub(super) fn rows_message(rows: &Dataset, path: Option<&Path>) -> Result<RowsMessage> {
    let slices = if rows.is_empty()? { Vec::new() } else { rows.file_slices()? };
    let mut versions = Vec::new();
    for (path, version) in rows.versions() {
        versions.push(VersionMessage { path: path_to_bytes(&path), version });
    }
    Ok(RowsMessage {
        schema: encode_schema(rows.schema()).map_err(schema_error)?,
        path: path.map(path_to_bytes),
        slices: slices.iter().map(slice_message).collect::<Result<_>>()?,
        versions,
    })
}

fn slice_message(slice: &FileSlice) -> Result<SliceMessage> {
    let fields: Vec<_> = slice.partition.iter().map(|(field, _)| field.clone()).collect();
    let keys = if fields.is_empty() { None } else { Some(encode_schema(&Schema::new(fields)).map_err(schema_error)?) };
    let columns = slice.columns.iter().map(|column| u32::try_from(*column).map_err(schema_error));
    Ok(SliceMessage {
        path: path_to_bytes(&slice.path),
        start: slice.start,
        rows: slice.rows,
        columns: columns.collect::<Result<_>>()?,
        keys,
        values: slice.partition.iter().map(|(_, text)| ValueMessage { text: text.clone() }).collect(),
    })
}

fn file_slice(message: &SliceMessage) -> Result<FileSlice> {
    let keys = message.keys.as_ref().map(|keys| decode_schema(keys).map_err(schema_error)).transpose()?;
    let fields = keys.iter().flat_map(|keys| keys.fields().iter().cloned());
    Ok(FileSlice {
        path: path_from_bytes(&message.path),
        start: message.start,
        rows: message.rows,
        columns: message.columns.iter().map(|column| *column as usize).collect(),
        partition: fields.zip(message.values.iter().map(|value| value.text.clone())).collect(),
    })
}

/// Opens the rows of a message in this process.
///
/// # Errors
/// Errors of opening the files; `FileChanged` if they do not have the rows any more.
pub(super) fn open_rows(message: &RowsMessage) -> Result<Dataset> {
    let schema = decode_schema(&message.schema).map_err(schema_error)?;
    if message.slices.is_empty() {
        return Dataset::from_batches(schema, Vec::new());
    }
    let slices = message.slices.iter().map(file_slice).collect::<Result<Vec<_>>>()?;
    let path = message.path.as_ref().map(|path| path_from_bytes(path));
    let table = path.as_ref().and_then(|path| open_table(path, &schema, &slices));
    let rows = match table {
        Some(table) => table,
        None => OpenOptions::new().file_slices(&slices)?,
    };
    let mut versions = Vec::with_capacity(message.versions.len());
    for version in &message.versions {
        versions.push((path_from_bytes(&version.path), version.version.clone()));
    }
    rows.check_versions(&versions)?;
    if rows.schema().fields() != schema.fields() {
        return Err(changed_error(path.as_deref().unwrap_or(&slices[0].path)));
    }
    Ok(rows)
}

/// Opens the table at `path` if its current rows are `slices`. Unlike separate slices, a table knows its partitions.
fn open_table(path: &Path, schema: &Schema, slices: &[FileSlice]) -> Option<Dataset> {
    let table = arrowwood::open(path).ok()?;
    let has_same_rows = table.file_slices().is_ok_and(|table_slices| table_slices == slices);
    (has_same_rows && table.schema().fields() == schema.fields()).then_some(table)
}

fn changed_error(path: &Path) -> Error {
    Error::new(ErrorKind::FileChanged, "its columns have changed since the query began; ask again").at(path)
}

/// Returns true if rows were dropped or replaced while they were opened, so that another attempt may find newer ones.
pub(super) fn is_retryable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::RowOutOfRange | ErrorKind::FileChanged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrowwood::{Writer, WriterOptions};
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    /// Returns 100 numbers from `first` on.
    fn batch(first: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 100));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
    }

    #[test]
    fn messages_open_the_rows_they_were_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut writer = Writer::open(&path, Some(batch(0).schema()), &WriterOptions::default()).unwrap();
        let empty = arrowwood::open(&path).unwrap();
        let reopened = open_rows(&rows_message(&empty, Some(&path)).unwrap()).unwrap();
        assert_eq!(reopened.len().unwrap(), 0);
        assert_eq!(reopened.schema(), empty.schema());

        writer.append(&batch(0)).unwrap();
        writer.commit().unwrap();
        let rows = arrowwood::open(&path).unwrap();
        let message = rows_message(&rows, Some(&path)).unwrap();
        assert_eq!(open_rows(&message).unwrap().len().unwrap(), 100);

        // Rows that are committed later are not part of the message.
        writer.append(&batch(100)).unwrap();
        writer.commit().unwrap();
        let reopened = open_rows(&message).unwrap();
        assert_eq!(reopened.len().unwrap(), 100);
        assert!(arrowwood::rows_equal(&reopened, &rows).unwrap());

        // Another table at the same path has other rows.
        writer.close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let mut writer = Writer::open(&path, Some(batch(0).schema()), &WriterOptions::default()).unwrap();
        writer.append(&batch(500)).unwrap();
        writer.commit().unwrap();
        let error = open_rows(&message).unwrap_err();
        assert!(is_retryable(&error), "{error:?}");
    }

    #[test]
    fn rows_in_memory_are_rejected() {
        let rows = Dataset::from_batches(batch(0).schema(), vec![batch(0)]).unwrap();
        assert_eq!(rows_message(&rows, None).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
