//! Saves the shown data: rows that were found or sorted, groups, results of SQL; in the formats of other rows, or as
//! Parquet if the program that serves can write it.

use std::fs::File;
use std::io::{self, Read};

use arrowwood::{Dataset, Error};
use bytes::Bytes;
use hyper::{Response, StatusCode};

use crate::outgoing::{Outgoing, Step, Steps, blocking};
use crate::query::Query;
use crate::reading::{Form, whole_body};
use crate::refusal::{Refusal, Result};
use crate::response::with_type;
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["view", "format"];

/// The maximum size in bytes of rows for a Parquet file, which is written before it is sent.
const MOST: u64 = 1 << 30;
/// Bytes of a file that are sent at once.
const PART: usize = 1 << 20;

/// The saved data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedForm {
    Rows(Form),
    Parquet,
}

impl SavedForm {
    /// The requested format; `None` if the request is only for display.
    pub fn of(query: &Query) -> Result<Option<SavedForm>> {
        match query.get("format")? {
            None => Ok(None),
            Some("parquet") => Ok(Some(SavedForm::Parquet)),
            Some(_) => Ok(Some(SavedForm::Rows(Form::named(query)?))),
        }
    }
}

/// The rows of a view in its order, or for Parquet also all rows.
pub(crate) async fn save(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Response<Outgoing>> {
    let of_table = |e: Error| Refusal::of_table(&e);
    let form = SavedForm::of(query)?
        .ok_or_else(|| Refusal::bad_request("format: arrow, jsonl, csv or parquet is expected"))?;
    let view = query.get("view")?.map(|id| session.shared.views.get(id, &snapshot)).transpose()?;
    if view.is_none() && form != SavedForm::Parquet {
        return Err(Refusal::bad_request(
            "view: rows that were found or sorted are expected; `rows` sends all of them",
        ));
    }
    let find = move |_: &Session| {
        let rows = snapshot.rows;
        let Some(view) = view else { return Ok(rows) };
        let places: Option<Vec<u64>> = view.rows.iter().map(|number| number.checked_sub(rows.first_row())).collect();
        let dropped = || Refusal::new(StatusCode::GONE, "dropped", "some of the rows were dropped; search again");
        rows.rows_at(&places.ok_or_else(dropped)?).map_err(of_table)
    };
    saved(session, session.work(find).await?, form).await
}

/// Existing rows, as a file.
pub(crate) async fn saved(session: &Session, rows: Dataset, form: SavedForm) -> Result<Response<Outgoing>> {
    match form {
        SavedForm::Rows(form) => {
            Ok(with_type(StatusCode::OK, form.media_type(), whole_body(rows, form, session.clone())?))
        }
        SavedForm::Parquet => parquet(session, rows).await,
    }
}

async fn parquet(session: &Session, rows: Dataset) -> Result<Response<Outgoing>> {
    let missing = || {
        let detail =
            "Parquet needs the Python package: pip install 'arrowwood[parquet]', and its command `arrowwood view`";
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail)
    };
    let engine = session.shared.sql.clone().ok_or_else(missing)?;
    let write = move |_: &Session| {
        let bytes = rows.nbytes().map_err(|e| Refusal::of_table(&e))?;
        if bytes > MOST {
            let detail = format!(
                "{bytes} bytes of rows are too many to be written as Parquet for a look, at most {MOST}: \
                 `arrowwood export` writes a file of any size"
            );
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail));
        }
        engine.parquet(&rows).ok_or_else(missing)?.map_err(Refusal::bad_request)
    };
    let file = session.work(write).await?;
    Ok(with_type(StatusCode::OK, "application/vnd.apache.parquet", Outgoing::steps(Sent(file))))
}

/// A file, and the part already sent.
struct Sent(File);

impl Steps for Sent {
    async fn step(mut self) -> Step<Sent> {
        let read = move || -> io::Result<(Sent, Vec<u8>)> {
            let mut part = Vec::with_capacity(PART);
            (&mut self.0).take(PART as u64).read_to_end(&mut part)?;
            Ok((self, part))
        };
        match blocking(read).await.flatten() {
            Ok((_, part)) if part.is_empty() => Step::End(Vec::new()),
            Ok((file, part)) => Step::Data(file, vec![Bytes::from(part)]),
            Err(e) => Step::Failed(e),
        }
    }
}
