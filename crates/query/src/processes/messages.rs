//! The messages between a query process and its parent, and their conversions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrowwood::mapping::os;
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
pub(super) struct QueryMessage {
    #[prost(string, tag = "1")]
    pub text: String,
    /// The values of the parameters, as an Arrow IPC stream.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub parameters: Option<Bytes>,
    #[prost(uint64, optional, tag = "3")]
    pub max_rows: Option<u64>,
    /// True if only the columns and parameters are requested.
    #[prost(bool, tag = "4")]
    pub is_plan: bool,
    /// The maximum bytes that operators may retain.
    #[prost(uint64, tag = "5")]
    pub max_bytes: u64,
    /// The bytes that operators may retain without a request.
    #[prost(uint64, tag = "6")]
    pub share: u64,
}

/// A request of a query process for a table, for the names of all tables, or for memory.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestMessage {
    /// The requested table. If neither a table nor bytes are set, the names of all tables are requested.
    #[prost(string, optional, tag = "1")]
    pub table: Option<String>,
    /// The requested bytes of memory.
    #[prost(uint64, optional, tag = "2")]
    pub bytes: Option<u64>,
}

/// The response to a request.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseMessage {
    #[prost(message, optional, tag = "1")]
    pub error: Option<ErrorMessage>,
    #[prost(string, repeated, tag = "2")]
    pub names: Vec<String>,
    /// The rows of the table; `None` if there is no such table.
    #[prost(message, optional, tag = "3")]
    pub rows: Option<RowsMessage>,
    /// True if the requested bytes are granted.
    #[prost(bool, tag = "4")]
    pub is_granted: bool,
}

/// The files that another process opens to get the same rows.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RowsMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    /// The path of the table or file, if it has one.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub path: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub slices: Vec<SliceMessage>,
    #[prost(message, repeated, tag = "4")]
    pub versions: Vec<VersionMessage>,
}

/// Rows of one file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SliceMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub path: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub start: u64,
    #[prost(uint64, tag = "3")]
    pub rows: u64,
    #[prost(uint32, repeated, tag = "4")]
    pub columns: Vec<u32>,
    /// The schema of the partition's columns.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub keys: Option<Bytes>,
    #[prost(message, repeated, tag = "6")]
    pub values: Vec<ValueMessage>,
}

/// The value of a partition's column, as text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueMessage {
    #[prost(string, optional, tag = "1")]
    pub text: Option<String>,
}

/// The version of a file, which changes when it is replaced.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub path: Vec<u8>,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// The columns of a statement's result, and its parameters.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PlanMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub parameters: Bytes,
}

/// The end of a query.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EndMessage {
    #[prost(message, optional, tag = "1")]
    pub error: Option<ErrorMessage>,
    /// True if the process can answer another query.
    #[prost(bool, tag = "2")]
    pub is_ready: bool,
}

/// An [`SqlError`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorMessage {
    /// The variant, as one of the numbers below.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(string, tag = "2")]
    pub message: String,
    /// The index in [`KINDS`] of a table's error.
    #[prost(uint32, tag = "3")]
    pub table_kind: u32,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub path: Option<Vec<u8>>,
}

// The variants of `SqlError` as numbers.
const ENGINE: u32 = 0;
const STATEMENT: u32 = 1;
const MEMORY: u32 = 2;
const UNSUPPORTED: u32 = 3;
const TABLE: u32 = 4;

/// The kinds of a table's errors. A kind that is missing here is sent as `Internal`, which is the first.
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
                table_kind: KINDS
                    .iter()
                    .zip(0..)
                    .find(|(kind, _)| **kind == error.kind())
                    .map_or(0, |(_, index)| index),
                path: error.path().map(path_to_bytes),
                ..ErrorMessage::new(TABLE, error.message())
            },
        }
    }

    pub fn into_error(self) -> SqlError {
        match self.kind {
            STATEMENT => SqlError::Statement(self.message),
            MEMORY => SqlError::Memory(self.message),
            UNSUPPORTED => SqlError::Unsupported(self.message),
            TABLE => {
                let kind = KINDS.get(self.table_kind as usize).copied().unwrap_or(ErrorKind::Internal);
                let error = Error::new(kind, self.message);
                SqlError::Table(match self.path {
                    Some(path) => error.at(path_from_bytes(&path)),
                    None => error,
                })
            }
            _ => SqlError::Engine(self.message),
        }
    }
}

pub(super) fn path_to_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

pub(super) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    // Another process has sent what `path_to_bytes` returned, so that nothing is lost on Unix.
    os::path_from_bytes(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into(), Path::to_path_buf)
}

/// Encodes a batch as an Arrow IPC stream.
pub(super) fn encode_batch(batch: &RecordBatch) -> Result<Bytes> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?.into())
}

/// Encodes a schema as an Arrow IPC stream without batches.
pub(super) fn encode_schema(schema: &Schema) -> Result<Bytes> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.into_inner()?.into())
}

/// Decodes a stream of one batch.
pub(super) fn decode_batch(bytes: &[u8]) -> Result<RecordBatch> {
    let mut batches = StreamReader::try_new(bytes, None)?;
    match batches.next() {
        Some(batch) => Ok(batch?),
        None => Err(DataFusionError::Internal("a stream without a batch".into())),
    }
}

/// Decodes the schema of a stream.
pub(crate) fn decode_schema(bytes: &[u8]) -> Result<SchemaRef> {
    let schema = StreamReader::try_new(bytes, None)?.schema();
    Ok(Arc::new(schema.as_ref().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_conversion_to_messages() {
        for error in [
            SqlError::Statement("a".into()),
            SqlError::Memory("b".into()),
            SqlError::Unsupported("c".into()),
            SqlError::Engine("d".into()),
        ] {
            assert_eq!(format!("{:?}", ErrorMessage::from_error(&error).into_error()), format!("{error:?}"));
        }
        for kind in KINDS {
            let error = Error::new(kind, "the file has no end").at("/a/b");
            let message = ErrorMessage::from_error(&SqlError::Table(error.clone()));
            let SqlError::Table(converted) = message.into_error() else { panic!("{error}") };
            assert_eq!(converted.kind(), kind);
            assert_eq!(converted.to_string(), error.to_string());
        }
    }
}
