//! Saves the shown data: rows that were found or sorted, groups, results of SQL; in the formats of other rows, or as
//! Parquet if the program that serves can write it.

use std::fs::File;
use std::io::{self, Read};

use arrowwood::{Dataset, Error};
use bytes::Bytes;
use hyper::{Response, StatusCode};

use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response::with_type;
use crate::response_body::{BodySource, BodyStep, ResponseBody, blocking};
use crate::row_stream::{RowFormat, whole_body};
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["view", "format"];

/// The maximum size in bytes of rows for a Parquet file, which is written before it is sent.
const MOST: u64 = 1 << 30;
/// Bytes of a file that are sent at once.
const PART: usize = 1 << 20;

/// The saved data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Rows(RowFormat),
    Parquet,
}

impl ExportFormat {
    /// The requested format; `None` if the request is only for display.
    pub fn from_query(query: &Query) -> Result<Option<ExportFormat>> {
        match query.get("format")? {
            None => Ok(None),
            Some("parquet") => Ok(Some(ExportFormat::Parquet)),
            Some(_) => Ok(Some(ExportFormat::Rows(RowFormat::named(query)?))),
        }
    }
}

/// The rows of a view in its order, or for Parquet also all rows.
pub(crate) async fn save(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let form = ExportFormat::from_query(query)?
        .ok_or_else(|| Problem::bad_request("format: arrow, jsonl, csv or parquet is expected"))?;
    let view = query.get("view")?.map(|id| session.shared.views.get(id, &snapshot)).transpose()?;
    if view.is_none() && form != ExportFormat::Parquet {
        return Err(Problem::bad_request(
            "view: rows that were found or sorted are expected; `rows` sends all of them",
        ));
    }
    let find = move |_: &Session| {
        let rows = snapshot.rows;
        let Some(view) = view else { return Ok(rows) };
        let places: Option<Vec<u64>> = view.rows.iter().map(|number| number.checked_sub(rows.first_row())).collect();
        let dropped = || Problem::new(StatusCode::GONE, "dropped", "some of the rows were dropped; search again");
        rows.rows_at(&places.ok_or_else(dropped)?).map_err(of_table)
    };
    saved(session, session.run_blocking(find).await?, form).await
}

/// Existing rows, as a file.
pub(crate) async fn saved(session: &Session, rows: Dataset, form: ExportFormat) -> Result<Response<ResponseBody>> {
    match form {
        ExportFormat::Rows(form) => {
            Ok(with_type(StatusCode::OK, form.media_type(), whole_body(rows, form, session.clone())?))
        }
        ExportFormat::Parquet => parquet(session, rows).await,
    }
}

async fn parquet(session: &Session, rows: Dataset) -> Result<Response<ResponseBody>> {
    let missing = || {
        let detail =
            "Parquet needs the Python package: pip install 'arrowwood[parquet]', and its command `arrowwood view`";
        Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail)
    };
    let engine = session.shared.sql.clone().ok_or_else(missing)?;
    let write = move |_: &Session| {
        let bytes = rows.nbytes().map_err(|e| Problem::from_table_error(&e))?;
        if bytes > MOST {
            let detail = format!(
                "{bytes} bytes of rows are too many to be written as Parquet for a look, at most {MOST}: \
                 `arrowwood export` writes a file of any size"
            );
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail));
        }
        engine.parquet(&rows).ok_or_else(missing)?.map_err(Problem::bad_request)
    };
    let file = session.run_blocking(write).await?;
    Ok(with_type(StatusCode::OK, "application/vnd.apache.parquet", ResponseBody::steps(FileStream(file))))
}

/// A file, and the part already sent.
struct FileStream(File);

impl BodySource for FileStream {
    async fn step(mut self) -> BodyStep<FileStream> {
        let read = move || -> io::Result<(FileStream, Vec<u8>)> {
            let mut part = Vec::with_capacity(PART);
            (&mut self.0).take(PART as u64).read_to_end(&mut part)?;
            Ok((self, part))
        };
        match blocking(read).await.flatten() {
            Ok((_, part)) if part.is_empty() => BodyStep::End(Vec::new()),
            Ok((file, part)) => BodyStep::Data(file, vec![Bytes::from(part)]),
            Err(e) => BodyStep::Failed(e),
        }
    }
}
