//! Encodes statements as handles, which contain their text and the values of their parameters.

use arrow_array::RecordBatch;
use arrowwood::OpenOptions;
use bytes::Bytes;
use prost::Message;

use super::messages::{Any, TicketStatementQuery};
use crate::framing::decode_message;
use crate::messages::Ticket;
use crate::status::Status;

/// The maximum size of a handle in bytes, as all of it comes back in a ticket.
pub const MAX_HANDLE_LEN: usize = 48 << 10;

/// The content of a handle: the whole state of a statement, so that the server need not keep it. Any number of them may
/// be open.
///
/// The format is Arrowwood's own; to clients a handle is any bytes.
#[derive(Clone, PartialEq, Message)]
pub struct StatementHandle {
    /// The text of the statement.
    #[prost(string, tag = "1")]
    pub query: String,
    /// A stream of Arrow with the values of its parameters; empty for none.
    #[prost(bytes = "bytes", tag = "2")]
    pub parameters: Bytes,
    /// The name by which a client cancels it; 0 for none.
    #[prost(fixed64, tag = "3")]
    pub id: u64,
}

impl StatementHandle {
    /// Creates the handle of a statement sent as text, without values and without a name.
    ///
    /// # Errors
    /// `InvalidArgument` for a statement of a transaction, `ResourceExhausted` for one beyond [`MAX_HANDLE_LEN`].
    pub fn try_new(query: String, transaction_id: Option<&Bytes>) -> Result<StatementHandle, Status> {
        if transaction_id.is_some_and(|id| !id.is_empty()) {
            let message = "there are no transactions; each query is of one commit of each table";
            return Err(Status::invalid_argument(message));
        }
        StatementHandle { query, ..StatementHandle::default() }.checked()
    }

    /// Decodes a handle.
    ///
    /// # Errors
    /// `InvalidArgument` for bytes that are none.
    pub fn parse(handle: Bytes) -> Result<StatementHandle, Status> {
        decode_message(handle)
    }

    /// Returns the handle in a ticket; `None` for a ticket of something else.
    ///
    /// # Errors
    /// `InvalidArgument` for a damaged ticket of a statement.
    pub fn from_ticket(ticket: &Ticket) -> Result<Option<StatementHandle>, Status> {
        match Any::parse(&ticket.ticket) {
            Some((name, value)) if name == "TicketStatementQuery" => {
                let ticket: TicketStatementQuery = decode_message(value)?;
                StatementHandle::parse(ticket.statement_handle).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the ticket for the statement's rows.
    pub fn to_ticket(&self) -> Ticket {
        let ticket = TicketStatementQuery { statement_handle: self.bytes() };
        Ticket { ticket: Any::pack(&ticket).encode_to_vec().into() }
    }

    /// Returns the bytes that clients get and send back.
    pub fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Sets the name of one run, by which it is cancelled.
    pub fn with_id(self, id: u64) -> StatementHandle {
        StatementHandle { id, ..self }
    }

    /// Binds values to the parameters: `stream` is an Arrow stream of one row.
    ///
    /// # Errors
    /// As [`parameter_values`](StatementHandle::parameter_values), and `ResourceExhausted` beyond [`MAX_HANDLE_LEN`].
    pub fn with_parameters(self, stream: Vec<u8>) -> Result<StatementHandle, Status> {
        let bound = StatementHandle { parameters: stream.into(), ..self }.checked()?;
        bound.parameter_values()?;
        Ok(bound)
    }

    /// Checks the size of the handle.
    fn checked(self) -> Result<StatementHandle, Status> {
        let len = self.encoded_len();
        if len > MAX_HANDLE_LEN {
            let message = format!("a statement and its parameters have at most {MAX_HANDLE_LEN} bytes, got {len}");
            return Err(Status::resource_exhausted(message));
        }
        Ok(self)
    }

    /// Decodes and checks the values of the parameters: a row, or `None` if there are none.
    ///
    /// # Errors
    /// `InvalidArgument` for a damaged stream, for several rows, and for nested values.
    pub fn parameter_values(&self) -> Result<Option<RecordBatch>, Status> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let bytes = arrowwood::Bytes::from(self.parameters.to_vec());
        let rows = OpenOptions::new().max_decompressed_bytes(MAX_HANDLE_LEN as u64).bytes(bytes).map_err(damaged)?;
        if let Some(nested) = rows.schema().fields().iter().find(|field| field.data_type().is_nested()) {
            let message = format!("parameter '{}' is nested; values of plain types are taken", nested.name());
            return Err(Status::invalid_argument(message));
        }
        if rows.len().map_err(damaged)? != 1 {
            let message = "parameters are one row; bind and run the statement once for each";
            return Err(Status::invalid_argument(message));
        }
        rows.validate(|_, _| ()).map_err(damaged)?;
        rows.to_record_batches()
            .find(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() == 1))
            .transpose()
            .map_err(damaged)
    }
}

fn damaged(e: arrowwood::Error) -> Status {
    Status::invalid_argument(format!("the parameters are damaged: {}", e.message()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrowwood::{Dataset, WriteOptions};

    use super::*;
    use crate::status::Code;

    fn stream(values: Vec<i64>) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(values)) as _)]).unwrap();
        let mut stream = Vec::new();
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        arrowwood::write_to(&dataset, &mut stream, &WriteOptions::default()).unwrap();
        stream
    }

    #[test]
    fn tickets_contain_the_statement() {
        let handle = StatementHandle::try_new("select ?".into(), Some(&Bytes::new())).unwrap();
        assert_eq!(handle.parameter_values(), Ok(None));
        let bound = handle.with_parameters(stream(vec![7])).unwrap().with_id(9);
        let read = StatementHandle::from_ticket(&bound.to_ticket()).unwrap().unwrap();
        assert_eq!((read.query.as_str(), read.id), ("select ?", 9));
        let values = read.parameter_values().unwrap().unwrap();
        assert_eq!(values.column(0).as_ref(), &Int64Array::from(vec![7]) as &dyn arrow_array::Array);
        assert_eq!(StatementHandle::from_ticket(&Ticket { ticket: "ticks".into() }), Ok(None));
    }

    #[test]
    fn statements_have_limits() {
        let code = |result: Result<StatementHandle, Status>| result.unwrap_err().code;
        let new = |text: &str| StatementHandle::try_new(text.into(), None);
        assert_eq!(code(new(&"x".repeat(MAX_HANDLE_LEN))), Code::ResourceExhausted);
        assert_eq!(code(StatementHandle::try_new("x".into(), Some(&"t".into()))), Code::InvalidArgument);
        assert_eq!(code(new("x").unwrap().with_parameters(stream(vec![1, 2]))), Code::InvalidArgument);
        assert_eq!(code(new("x").unwrap().with_parameters(vec![1; 40])), Code::InvalidArgument);
        assert_eq!(code(new("x").unwrap().with_parameters(vec![1; MAX_HANDLE_LEN])), Code::ResourceExhausted);
    }
}
