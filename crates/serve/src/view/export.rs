//! Exports data shown on the page: rows of a search or a sort, groups, results of SQL; in the formats of other rows, or
//! as Parquet if the program that serves can write it.

use std::fs::File;
use std::io::{self, Read};

use arrowwood::Dataset;
use bytes::Bytes;
use hyper::{Response, StatusCode};

use super::state::ViewSession;
use crate::catalog::Snapshot;
use crate::http::{BodyPart, Problem, Query, ResponseBody, Result, ResultExt, with_type};
use crate::ops::blocking;
use crate::read::{RowFormat, whole_body};
use crate::sql::SqlEngine;

pub(crate) const PARAMETERS: &[&str] = &["view", "format"];

/// The maximum size in bytes of rows for a Parquet file, which is written before it is sent.
const MAX_PARQUET_BYTES: u64 = 1 << 30;
/// The number of bytes of a file that are sent at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The format of exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Rows(RowFormat),
    Parquet,
}

impl ExportFormat {
    /// Returns the requested format; `None` if the request is only for display.
    pub fn from_query(query: &Query) -> Result<Option<ExportFormat>> {
        match query.get("format")? {
            None => Ok(None),
            Some("parquet") => Ok(Some(ExportFormat::Parquet)),
            Some(_) => Ok(Some(ExportFormat::Rows(RowFormat::named(query)?))),
        }
    }
}

/// Sends the rows of a view in its order; as Parquet, all rows can be sent, too.
pub(crate) async fn save(page: &ViewSession, snapshot: Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let form = ExportFormat::from_query(query)?
        .ok_or_else(|| Problem::bad_request("format: arrow, jsonl, csv or parquet is expected"))?;
    let view = query.get("view")?.map(|id| page.state.views.get(id, &snapshot)).transpose()?;
    if view.is_none() && form != ExportFormat::Parquet {
        return Err(Problem::bad_request(
            "view: rows that were found or sorted are expected; `rows` sends all of them",
        ));
    }
    let rows = match view {
        None => snapshot.rows,
        Some(view) => page.session.run_blocking(move |_| select_rows(&snapshot.rows, &view.rows)).await?,
    };
    saved(page, rows, form).await
}

/// Returns the rows with these numbers.
fn select_rows(rows: &Dataset, numbers: &[u64]) -> Result<Dataset> {
    let indices: Option<Vec<u64>> = numbers.iter().map(|number| number.checked_sub(rows.first_row())).collect();
    let Some(indices) = indices else {
        return Err(Problem::new(StatusCode::GONE, "dropped", "some of the rows were dropped; search again"));
    };
    rows.rows_at(&indices).or_table_problem()
}

/// Sends existing rows as a file.
pub(crate) async fn saved(page: &ViewSession, rows: Dataset, form: ExportFormat) -> Result<Response<ResponseBody>> {
    match form {
        ExportFormat::Rows(form) => {
            Ok(with_type(StatusCode::OK, form.media_type(), whole_body(rows, form, page.session.clone())?))
        }
        ExportFormat::Parquet => parquet(page, rows).await,
    }
}

async fn parquet(page: &ViewSession, rows: Dataset) -> Result<Response<ResponseBody>> {
    let engine = page.state.sql.engine.clone().ok_or_else(no_parquet)?;
    let file = page.session.run_blocking(move |_| write_parquet(engine.as_ref(), &rows)).await?;
    Ok(with_type(
        StatusCode::OK,
        "application/vnd.apache.parquet",
        ResponseBody::steps(FileStream(file), FileStream::step),
    ))
}

/// Writes rows to an unnamed file. Blocks.
fn write_parquet(engine: &dyn SqlEngine, rows: &Dataset) -> Result<File> {
    let bytes = rows.nbytes().or_table_problem()?;
    if bytes > MAX_PARQUET_BYTES {
        let detail = format!(
            "{bytes} bytes of rows are too many to be written as Parquet for a look, at most {MAX_PARQUET_BYTES}: \
             `arrowwood export` writes a file of any size"
        );
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail));
    }
    engine.parquet(rows).ok_or_else(no_parquet)?.map_err(Problem::bad_request)
}

fn no_parquet() -> Problem {
    let detail = "Parquet needs the Python package: pip install 'arrowwood[parquet]', and its command `arrowwood view`";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail)
}

/// Streams a file from its current position.
struct FileStream(File);

impl FileStream {
    async fn step(self) -> io::Result<BodyPart<FileStream>> {
        let (file, chunk) = blocking(move || self.read_chunk()).await.flatten()?;
        let rest = (!chunk.is_empty()).then_some(file);
        Ok((vec![Bytes::from(chunk)], rest))
    }

    /// Reads the next bytes; none at the end. Blocks.
    fn read_chunk(mut self) -> io::Result<(FileStream, Vec<u8>)> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        (&mut self.0).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
        Ok((self, chunk))
    }
}
