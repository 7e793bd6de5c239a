//! Passes calls of other servers to the worker's engine, with the session as caller.

use std::time::Duration;

use arrowwood::Dataset;
use arrowwood::mapping::os;
use hyper::{Response, StatusCode};

use super::worker::{CallerContext, WorkerCaller, WorkerEngine, WorkerRequest};
use crate::hex::hex;
use crate::http::{Problem, ResponseBody, ResultExt};
use crate::session::Session;

/// The maximum time for a query, a year: timers can't take the duration that means no limit.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Answers a call of a session.
pub(crate) async fn answer(
    session: Session,
    engine: &dyn WorkerEngine,
    request: WorkerRequest,
) -> Response<ResponseBody> {
    engine.call(request, WorkerCaller::new(session)).await.map(ResponseBody::from_worker)
}

impl CallerContext for Session {
    fn key(&self) -> String {
        match self.caller.name() {
            Some(name) => hex(name.as_bytes()),
            None => String::new(),
        }
    }

    fn is_valid(&self) -> bool {
        Session::is_valid(self) && !self.is_stopping()
    }

    fn query_timeout(&self) -> Duration {
        self.shared.limits.query_timeout.min(MAX_TIMEOUT)
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)> {
        self.check_read(name).map_err(client_error)?;
        let table = match self.shared.catalog.get(name) {
            Ok(table) => table,
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => return Ok(None),
            Err(refusal) => return Err(client_error(refusal)),
        };
        Ok(Some(table.rows().or_table_problem().map_err(client_error)?))
    }

    fn directory(&self) -> Vec<u8> {
        let directory = self.shared.catalog.directory();
        match os::place_of(directory) {
            Ok(place) => place.into_bytes(),
            Err(_) => directory.as_os_str().as_encoded_bytes().to_vec(),
        }
    }
}

/// Returns the status and the message of a refusal, without the error for the log.
fn client_error(refusal: Problem) -> (StatusCode, String) {
    (refusal.status(), refusal.detail().to_owned())
}
