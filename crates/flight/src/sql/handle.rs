//! Encodes statements as handles, which contain their text and the values of their parameters.
//!
//! The server keeps no state of a statement that does not run, so any number of them may be open.

use arrow_array::RecordBatch;
use arrowwood::{Dataset, OpenOptions, StreamEncoder};
use bytes::Bytes;
use hyper::StatusCode;
use prost::Message;

use super::messages::{StatementHandle, StatementText};
use crate::flight::request_stream::decode_message;
use crate::http::{Problem, Result, ResultExt};
use crate::sql::{NO_ID, Statement};

/// The maximum size of a handle in bytes, as all of it comes back in a ticket.
pub(super) const MAX_HANDLE_LEN: usize = 48 << 10;

impl StatementHandle {
    /// Creates the handle of a statement sent as text.
    pub fn from_text(text: StatementText) -> Result<StatementHandle> {
        if !text.transaction.is_empty() {
            return Err(Problem::bad_request("there are no transactions; each query is of one commit of each table"));
        }
        StatementHandle { query: text.query, parameters: Bytes::new(), id: NO_ID }.checked()
    }

    pub fn parse(handle: Bytes) -> Result<StatementHandle> {
        decode_message(handle)
    }

    /// Adds a unique name, for one run.
    pub fn with_unique_id(self) -> Result<StatementHandle> {
        let id = getrandom::u64().map_err(|e| Problem::internal(e.to_string()))?;
        Ok(StatementHandle { id: id.max(NO_ID + 1), ..self })
    }

    pub fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Binds values to the parameters: `stream` has one row.
    pub fn with_parameters(self, stream: Vec<u8>) -> Result<StatementHandle> {
        let bound = StatementHandle { parameters: stream.into(), ..self }.checked()?;
        bound.parameters()?;
        Ok(bound)
    }

    /// Checks the size of the handle.
    fn checked(self) -> Result<StatementHandle> {
        let len = self.encoded_len();
        if len > MAX_HANDLE_LEN {
            let detail = format!("a statement and its parameters have at most {MAX_HANDLE_LEN} bytes, got {len}");
            return Err(Problem::too_large(detail));
        }
        Ok(self)
    }

    /// Decodes and checks the values of the parameters.
    fn parameters(&self) -> Result<Option<RecordBatch>> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let bytes = arrowwood::Bytes::from(self.parameters.to_vec());
        let rows = OpenOptions::new().max_decompressed_bytes(MAX_HANDLE_LEN as u64).bytes(bytes).map_err(damaged)?;
        if let Some(nested) = rows.schema().fields().iter().find(|field| field.data_type().is_nested()) {
            let detail = format!("parameter '{}' is nested; values of plain types are taken", nested.name());
            return Err(Problem::bad_request(detail));
        }
        if rows.len().map_err(damaged)? != 1 {
            return Err(Problem::bad_request("parameters are one row; bind and run the statement once for each"));
        }
        rows.validate(|_, _| ()).map_err(damaged)?;
        rows.to_record_batches()
            .find(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() == 1))
            .transpose()
            .map_err(damaged)
    }

    /// Returns the statement to plan or run.
    pub fn statement(&self) -> Result<Statement> {
        Ok(Statement { text: self.query.clone(), parameters: self.parameters()?, max_rows: None, self_table: None })
    }
}

/// Encodes a schema as a message of a stream.
pub(super) fn schema_message(schema: &arrow_schema::SchemaRef) -> Result<Bytes> {
    let encoder = StreamEncoder::new(schema.clone()).or_table_problem()?;
    Ok(encoder.schema_message().head().or_table_problem()?.into())
}

/// Converts rows made by the server to a dataset.
pub(super) fn dataset(batch: RecordBatch) -> Result<Dataset> {
    Dataset::from_batches(batch.schema(), vec![batch]).map_err(|e| Problem::internal(e.to_string()))
}

fn damaged(e: arrowwood::Error) -> Problem {
    Problem::bad_request(format!("the parameters are damaged: {}", e.message()))
}

/// Returns the refusal of a command or an action that this server does not have.
pub(super) fn not_spoken(name: &str) -> Problem {
    let detail = format!("{name} is not done here: the server answers statements that only read");
    Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail)
}
