//! SQL over what is looked at, where the program that serves it has an engine: the first rows of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrowwood::Error;
use hyper::StatusCode;
use serde_json::{Value as Json, json};

use crate::cells::table;
use crate::engine::SqlQuery;
use crate::query::Query;
use crate::refusal::{Refusal, Result};
use crate::session::Session;
use crate::table::Table;

pub(crate) const PARAMETERS: &[&str] = &["query"];

/// Rows of an answer.
const MOST: u64 = 1_000;

/// Gives a query up when the client goes.
struct WhileWanted(Arc<AtomicBool>);

impl Drop for WhileWanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The first rows that a query asks for. Ends when the client goes.
pub(crate) async fn sql(session: &Session, of: Arc<Table>, query: &Query) -> Result<Json> {
    let text = query.get("query")?.ok_or_else(|| Refusal::bad_request("query: a statement is expected"))?.to_owned();
    let Some(engine) = session.shared.sql.clone() else {
        let detail =
            "SQL needs the Python package and DuckDB: pip install 'arrowwood[sql]', and its command `arrowwood view`";
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail));
    };
    let wanted = WhileWanted(Arc::default());
    let given_up = wanted.0.clone();
    let ask = move |_: &Session| {
        let asked = SqlQuery { text: &text, path: &of.path, most: MOST + 1, given_up: &given_up };
        let found = engine.answer(&asked).map_err(Refusal::bad_request)?;
        let of_table = |e: Error| Refusal::of_table(&e);
        let len = found.len().map_err(of_table)?;
        let mut told = table(&found.head(MOST).map_err(of_table)?).map_err(of_table)?;
        told["whole"] = json!(len <= MOST);
        Ok(told)
    };
    session.work(ask).await
}
