//! Parses the requests of actions.

use bytes::Bytes;
use prost::Message;

use super::command::unsupported;
use super::handle::StatementHandle;
use super::messages::{
    ActionCancelQueryRequest, ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, Any,
};
use crate::framing::decode_message;
use crate::messages::{Action, CancelFlightInfoRequest, FlightInfo};
use crate::status::Status;

/// The request of an action of Flight SQL, or of Flight.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlAction {
    /// Prepare a statement.
    CreatePreparedStatement(StatementHandle),
    /// Close a prepared statement.
    ClosePreparedStatement,
    /// Cancel the queries of a flight, with the action of Flight.
    CancelFlightInfo(Option<FlightInfo>),
    /// Cancel the queries of a flight, with the action of Flight SQL.
    CancelQuery(FlightInfo),
    /// Close the session.
    CloseSession,
}

impl SqlAction {
    /// Parses the request of an action.
    ///
    /// # Errors
    /// `Unimplemented` for an action that is no variant, the errors of [`StatementHandle::try_new`], and `InvalidArgument`
    /// for a damaged message.
    pub fn parse(action: Action) -> Result<SqlAction, Status> {
        Ok(match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let ActionCreatePreparedStatementRequest { query, transaction_id } = unpack(&action.body)?;
                SqlAction::CreatePreparedStatement(StatementHandle::try_new(query, transaction_id.as_ref())?)
            }
            "ClosePreparedStatement" => {
                unpack::<ActionClosePreparedStatementRequest>(&action.body)?;
                SqlAction::ClosePreparedStatement
            }
            "CancelFlightInfo" => {
                let request: CancelFlightInfoRequest = decode_message(action.body)?;
                SqlAction::CancelFlightInfo(request.info)
            }
            "CancelQuery" => {
                let request: ActionCancelQueryRequest = unpack(&action.body)?;
                SqlAction::CancelQuery(decode_message(request.info)?)
            }
            "CloseSession" => SqlAction::CloseSession,
            other => return Err(unsupported(other)),
        })
    }
}

/// Decodes the message of a Flight SQL action, which is packed with its type.
fn unpack<M: Message + Default>(body: &Bytes) -> Result<M, Status> {
    let (_, value) = Any::parse(body).ok_or_else(|| Status::invalid_argument("a message of Flight SQL is expected"))?;
    decode_message(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    fn parse(kind: &str, body: Vec<u8>) -> Result<SqlAction, Status> {
        SqlAction::parse(Action { r#type: kind.into(), body: body.into() })
    }

    #[test]
    fn both_ways_to_cancel_name_a_flight() {
        let info = FlightInfo { total_records: 7, ..FlightInfo::default() };
        let of_sql = Any::pack(&ActionCancelQueryRequest { info: info.encode_to_vec().into() });
        assert_eq!(parse("CancelQuery", of_sql.encode_to_vec()), Ok(SqlAction::CancelQuery(info.clone())));
        let of_flight = CancelFlightInfoRequest { info: Some(info.clone()) };
        assert_eq!(parse("CancelFlightInfo", of_flight.encode_to_vec()), Ok(SqlAction::CancelFlightInfo(Some(info))));
    }

    #[test]
    fn unknown_and_unpacked_requests_are_refused() {
        let request = ActionCreatePreparedStatementRequest { query: "select 1".into(), transaction_id: None };
        let handle = StatementHandle::try_new("select 1".into(), None).unwrap();
        let packed = Any::pack(&request).encode_to_vec();
        assert_eq!(parse("CreatePreparedStatement", packed), Ok(SqlAction::CreatePreparedStatement(handle)));
        let code = |kind, body| parse(kind, body).unwrap_err().code;
        assert_eq!(code("CreatePreparedStatement", request.encode_to_vec()), Code::InvalidArgument);
        assert_eq!(code("BeginTransaction", Vec::new()), Code::Unimplemented);
    }
}
