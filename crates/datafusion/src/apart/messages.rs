//! The messages in frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrowwood::{Error, ErrorKind};
use arrowwood_serve::SqlError;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};
use prost::Message;

/// A query.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryMessage {
    #[prost(string, tag = "1")]
    pub text: String,
    /// The values of its parameters, as an Arrow IPC stream.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub parameters: Option<Bytes>,
    #[prost(uint64, optional, tag = "3")]
    pub most: Option<u64>,
    /// True if only its columns and parameters are requested.
    #[prost(bool, tag = "4")]
    pub is_plan: bool,
    /// The bytes that its steps may keep, at most.
    #[prost(uint64, tag = "5")]
    pub memory: u64,
    /// The bytes of these that its steps may keep without a request.
    #[prost(uint64, tag = "6")]
    pub share: u64,
}

/// A request of a process for a table, for the names of all tables, or for memory.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestMessage {
    /// The name of a table. Without a table and bytes, the names of all tables are requested.
    #[prost(string, optional, tag = "1")]
    pub table: Option<String>,
    /// More memory.
    #[prost(uint64, optional, tag = "2")]
    pub bytes: Option<u64>,
}

/// The answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseMessage {
    #[prost(message, optional, tag = "1")]
    pub error: Option<ErrorMessage>,
    #[prost(string, repeated, tag = "2")]
    pub names: Vec<String>,
    /// The rows of the table; none if there is no such table.
    #[prost(message, optional, tag = "3")]
    pub rows: Option<RowsMessage>,
    /// True if the process may keep the requested bytes.
    #[prost(bool, tag = "4")]
    pub is_granted: bool,
}

/// Rows of files, as another process opens them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RowsMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    /// Where the table is, or the file.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub path: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub places: Vec<PlaceMessage>,
    #[prost(message, repeated, tag = "4")]
    pub versions: Vec<VersionMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlaceMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub path: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub start: u64,
    #[prost(uint64, tag = "3")]
    pub rows: u64,
    #[prost(uint32, repeated, tag = "4")]
    pub columns: Vec<u32>,
    /// The columns of the partition.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub keys: Option<Bytes>,
    #[prost(message, repeated, tag = "6")]
    pub values: Vec<ValueMessage>,
}

/// The value of a partition, as text.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueMessage {
    #[prost(string, optional, tag = "1")]
    pub text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub path: Vec<u8>,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// The columns of a statement's result, and its parameters.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub parameters: Bytes,
}

/// How a query has ended.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EndMessage {
    #[prost(message, optional, tag = "1")]
    pub error: Option<ErrorMessage>,
    /// True if the process can answer another query.
    #[prost(bool, tag = "2")]
    pub is_ready: bool,
}

/// An error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ErrorMessage {
    /// The number of its kind of [`SqlError`].
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(string, tag = "2")]
    pub message: String,
    /// The number of its kind in [`KINDS`].
    #[prost(uint32, tag = "3")]
    pub of_table: u32,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub path: Option<Vec<u8>>,
}

const ENGINE: u32 = 0;
const STATEMENT: u32 = 1;
const MEMORY: u32 = 2;
const UNSUPPORTED: u32 = 3;
const TABLE: u32 = 4;

/// The kinds of errors of tables, by number. A new one is sent as `Internal`, which is the first.
const KINDS: [ErrorKind; 14] = [
    ErrorKind::Internal,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::InvalidData,
    ErrorKind::Unsupported,
    ErrorKind::SchemaMismatch,
    ErrorKind::ColumnNotFound,
    ErrorKind::RowOutOfRange,
    ErrorKind::InvalidArgument,
    ErrorKind::Closed,
    ErrorKind::Busy,
    ErrorKind::FileChanged,
    ErrorKind::CopyNeeded,
    ErrorKind::Io,
];

impl ErrorMessage {
    fn new(kind: u32, message: &str) -> ErrorMessage {
        ErrorMessage { kind, message: message.to_owned(), ..Default::default() }
    }

    pub fn from_error(error: &SqlError) -> ErrorMessage {
        match error {
            SqlError::Statement(message) => ErrorMessage::new(STATEMENT, message),
            SqlError::Memory(message) => ErrorMessage::new(MEMORY, message),
            SqlError::Unsupported(message) => ErrorMessage::new(UNSUPPORTED, message),
            SqlError::Engine(message) => ErrorMessage::new(ENGINE, message),
            SqlError::Table(error) => ErrorMessage {
                of_table: KINDS.iter().zip(0..).find(|(kind, _)| **kind == error.kind()).map_or(0, |(_, kind)| kind),
                path: error.path().map(bytes_of),
                ..ErrorMessage::new(TABLE, error.message())
            },
        }
    }

    pub fn error(self) -> SqlError {
        match self.kind {
            STATEMENT => SqlError::Statement(self.message),
            MEMORY => SqlError::Memory(self.message),
            UNSUPPORTED => SqlError::Unsupported(self.message),
            TABLE => {
                let kind = KINDS.get(self.of_table as usize).copied().unwrap_or(ErrorKind::Internal);
                let error = Error::new(kind, self.message);
                SqlError::Table(match self.path {
                    Some(path) => error.at(path_of(&path)),
                    None => error,
                })
            }
            _ => SqlError::Engine(self.message),
        }
    }
}

pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// A batch as an Arrow IPC stream.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> Result<Bytes> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?.into())
}

/// Columns as an Arrow IPC stream without rows.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.into_inner()?.into())
}

pub(crate) fn batch_of(bytes: &[u8]) -> Result<RecordBatch> {
    let mut batches = StreamReader::try_new(bytes, None)?;
    match batches.next() {
        Some(batch) => Ok(batch?),
        None => Err(DataFusionError::Internal("a stream without a batch".into())),
    }
}

pub(crate) fn schema_of(bytes: &[u8]) -> Result<SchemaRef> {
    let schema = StreamReader::try_new(bytes, None)?.schema();
    Ok(Arc::new(schema.as_ref().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_what_they_were() {
        for error in [
            SqlError::Statement("a".into()),
            SqlError::Memory("b".into()),
            SqlError::Unsupported("c".into()),
            SqlError::Engine("d".into()),
        ] {
            assert_eq!(format!("{:?}", ErrorMessage::from_error(&error).error()), format!("{error:?}"));
        }
        for kind in KINDS {
            let error = Error::new(kind, "the file has no end").at("/a/b");
            let SqlError::Table(found) = ErrorMessage::from_error(&SqlError::Table(error.clone())).error() else {
                panic!("{error}")
            };
            assert_eq!((found.kind(), found.to_string()), (kind, error.to_string()));
        }
    }
}
