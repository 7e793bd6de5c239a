//! Sends results of the SQL engine as rows of tables are sent: buffers of files are not copied.

use std::io;

use arrow_schema::SchemaRef;
use arrowwood::Dataset;

use super::statement::RunningQuery;
use crate::http::{BodyPart, ResponseBody, Result, ResultExt};
use crate::read::{Framing, RowEncoder, RowFormat};
use crate::session::Session;

/// The state of a response with a result.
struct ResultStream {
    running: RunningQuery,
    encoder: RowEncoder,
    session: Session,
    schema: SchemaRef,
    /// The rows being sent.
    current: Option<Dataset>,
    has_begun: bool,
}

/// Creates the body of a response over HTTP.
pub(crate) fn body(running: RunningQuery, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::try_new(form, &running.schema()).or_table_problem()?;
    Ok(stream(running, encoder, session))
}

/// Creates the body of a response as a framed Arrow stream.
pub(crate) fn framed_body(running: RunningQuery, framing: Framing, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::arrow(&running.schema(), framing).or_table_problem()?;
    Ok(stream(running, encoder, session))
}

fn stream(running: RunningQuery, encoder: RowEncoder, session: Session) -> ResponseBody {
    let schema = running.schema();
    let state = ResultStream { running, encoder, session, schema, current: None, has_begun: false };
    ResponseBody::steps(state, ResultStream::step)
}

impl ResultStream {
    async fn step(self) -> io::Result<BodyPart<ResultStream>> {
        let session = self.session.clone();
        self.next().await.map_err(|refusal| session.break_off(refusal))
    }

    /// Returns the next part of the response.
    async fn next(mut self) -> Result<BodyPart<ResultStream>> {
        self.session.check_valid()?;
        if !self.has_begun {
            self.has_begun = true;
            let heading = self.encoder.heading(&self.schema).or_table_problem()?;
            return Ok((heading.into_iter().collect(), Some(self)));
        }
        if self.current.is_none() {
            self.current = self.running.next().await?;
        }
        let Some(current) = self.current.take() else {
            return Ok((self.encoder.end().into_iter().collect(), None));
        };
        let session = self.session.clone();
        session.run_blocking(move |_| self.encode(&current).or_table_problem()).await
    }

    /// Encodes the first rows of `current`, and keeps the others. Blocks.
    fn encode(mut self, current: &Dataset) -> arrowwood::Result<BodyPart<ResultStream>> {
        let len = current.len()?;
        if len == 0 {
            return Ok((Vec::new(), Some(self)));
        }
        let (bytes, rows) = self.encoder.encode_chunk(current)?;
        assert!(rows > 0, "a chunk without rows: the response would never end");
        if rows < len {
            self.current = Some(current.slice(rows, len)?);
        }
        Ok((bytes, Some(self)))
    }
}
