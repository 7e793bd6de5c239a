//! Sends results of the SQL engine as rows of tables are sent: buffers of files are not copied.

use arrow_schema::SchemaRef;
use arrowwood::Dataset;

use super::statement::RunningQuery;
use crate::http::{BodySource, BodyStep, ResponseBody, Result, ResultExt};
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
    ResponseBody::steps(ResultStream { running, encoder, session, schema, current: None, has_begun: false })
}

impl ResultStream {
    /// Returns the next step of the response.
    async fn next(mut self) -> Result<BodyStep<ResultStream>> {
        self.session.check_valid()?;
        if !self.has_begun {
            self.has_begun = true;
            let heading = self.encoder.heading(&self.schema).or_table_problem()?;
            return Ok(BodyStep::Data(self, heading.into_iter().collect()));
        }
        if self.current.is_none() {
            self.current = self.running.next().await?;
        }
        let Some(current) = self.current.take() else {
            return Ok(BodyStep::End(self.encoder.end().into_iter().collect()));
        };
        let session = self.session.clone();
        session.run_blocking(move |_| self.encode(&current).or_table_problem()).await
    }

    /// Encodes the first rows of `current`, and keeps the others. Blocks.
    fn encode(mut self, current: &Dataset) -> arrowwood::Result<BodyStep<ResultStream>> {
        let len = current.len()?;
        if len == 0 {
            return Ok(BodyStep::Data(self, Vec::new()));
        }
        let (bytes, rows) = self.encoder.encode_chunk(current)?;
        assert!(rows > 0, "a chunk without rows: the response would never end");
        if rows < len {
            self.current = Some(current.slice(rows, len)?);
        }
        Ok(BodyStep::Data(self, bytes))
    }
}

impl BodySource for ResultStream {
    async fn step(self) -> BodyStep<ResultStream> {
        let session = self.session.clone();
        match self.next().await {
            Ok(step) => step,
            Err(refusal) => session.break_off(refusal),
        }
    }
}
