//! The calls of other servers, as sessions.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use arrowwood::Dataset;
use hyper::{Response, StatusCode};

use crate::describe::place_of;
use crate::problem::Problem;
use crate::response_body::ResponseBody;
use crate::session::Session;
use crate::worker::{CallerContext, WorkerCaller, WorkerEngine, WorkerRequest};

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
        let name = self.caller.name().unwrap_or_default();
        name.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is_valid(&self) -> bool {
        Session::is_valid(self) && !self.is_stopping()
    }

    fn query_timeout(&self) -> Duration {
        // Longer than timers go.
        self.shared.limits.query_timeout.min(Duration::from_secs(365 * 24 * 3600))
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)> {
        let told = |refusal: Problem| (refusal.status(), refusal.detail().to_owned());
        self.check_read(name).map_err(told)?;
        let table = match self.shared.catalog.get(name) {
            Ok(table) => table,
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => return Ok(None),
            Err(refusal) => return Err(told(refusal)),
        };
        let rows = table.rows().map_err(|e| told(Problem::from_table_error(&e)))?;
        Ok(Some(rows))
    }

    fn directory(&self) -> Vec<u8> {
        let directory = self.shared.catalog.directory();
        place_of(directory).map_or_else(|| directory.as_os_str().as_bytes().to_vec(), String::into_bytes)
    }
}
