//! Handles of statements: their text and the values of their parameters. The server keeps no state of a statement that
//! does not run, so any number of them may be open.

use arrow_array::RecordBatch;
use arrowwood::{Dataset, OpenOptions, StreamEncoder};
use bytes::Bytes;
use hyper::StatusCode;
use prost::Message;

use super::messages::{StatementHandle, StatementText};
use crate::flight::request_stream::decoded;
use crate::problem::{Problem, Result};
use crate::statement::Statement;

/// The maximum size of a handle in bytes: all of it comes back in a ticket.
pub(super) const LONGEST: usize = 48 << 10;

impl StatementHandle {
    /// The handle of a statement sent as text.
    pub fn from_text(text: StatementText) -> Result<StatementHandle> {
        if !text.transaction.is_empty() {
            return Err(Problem::bad_request("there are no transactions; each query is of one commit of each table"));
        }
        StatementHandle { query: text.query, parameters: Bytes::new(), id: 0 }.checked()
    }

    pub fn parse(handle: Bytes) -> Result<StatementHandle> {
        decoded(handle)
    }

    /// The same with a unique name, for one run.
    pub fn named(self) -> Result<StatementHandle> {
        let id = getrandom::u64().map_err(|e| Problem::internal(e.to_string()))?;
        Ok(StatementHandle { id: id.max(1), ..self })
    }

    pub fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// The same with values for its parameters: `stream` is one row.
    pub fn bound(self, stream: Vec<u8>) -> Result<StatementHandle> {
        let values = StatementHandle { parameters: stream.into(), ..self }.checked()?;
        values.parameters()?;
        Ok(values)
    }

    fn checked(self) -> Result<StatementHandle> {
        let len = self.encoded_len();
        if len > LONGEST {
            let detail = format!("a statement and its parameters have at most {LONGEST} bytes, got {len}");
            return Err(Problem::too_large(detail));
        }
        Ok(self)
    }

    fn parameters(&self) -> Result<Option<RecordBatch>> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let damaged =
            |e: arrowwood::Error| Problem::bad_request(format!("the parameters are damaged: {}", e.message()));
        let bytes = arrowwood::Bytes::from(self.parameters.to_vec());
        let rows = OpenOptions::new().max_decompressed_bytes(LONGEST as u64).bytes(bytes).map_err(damaged)?;
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

    /// The statement to plan or run.
    pub fn statement(&self) -> Result<Statement> {
        Ok(Statement { text: self.query.clone(), parameters: self.parameters()?, most: None, own: None })
    }
}

/// Encodes a schema as a message of a stream.
pub(super) fn schema_message(schema: &arrow_schema::SchemaRef) -> Result<Bytes> {
    let message = StreamEncoder::new(schema.clone()).and_then(|encoder| encoder.schema_message().head());
    Ok(message.map_err(|e| Problem::from_table_error(&e))?.into())
}

/// Encodes rows made by the server.
pub(super) fn dataset(batch: RecordBatch) -> Result<Dataset> {
    Dataset::from_batches(batch.schema(), vec![batch]).map_err(|e| Problem::internal(e.to_string()))
}

/// Refuses a command or an action that does not exist here.
pub(super) fn not_spoken(name: &str) -> Problem {
    let detail = format!("{name} is not done here: the server answers statements that only read");
    Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail)
}
