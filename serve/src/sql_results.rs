//! Sends results of the engine like rows of tables: buffers of files in place.

use std::io;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, Error};
use bytes::Bytes;

use crate::frames::Framing;
use crate::problem::{Problem, Result};
use crate::response_body::{BodySource, BodyStep, ResponseBody};
use crate::row_stream::{RowEncoder, RowFormat};
use crate::session::Session;
use crate::statement::RunningQuery;

/// The state of an answer.
struct ResultStream {
    running: RunningQuery,
    maker: RowEncoder,
    session: Session,
    schema: SchemaRef,
    /// Rows being sent.
    current: Option<Dataset>,
    is_begun: bool,
}

/// The body of an answer over HTTP.
pub(crate) fn body(running: RunningQuery, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::try_new(form, &running.schema()).map_err(|e| Problem::from_table_error(&e))?;
    Ok(steps(running, maker, session))
}

/// The body of Flight's answer.
pub(crate) fn flight_body(running: RunningQuery, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::arrow(&running.schema(), Framing::Flight).map_err(|e| Problem::from_table_error(&e))?;
    Ok(steps(running, maker, session))
}

fn steps(running: RunningQuery, maker: RowEncoder, session: Session) -> ResponseBody {
    let schema = running.schema();
    ResponseBody::steps(ResultStream { running, maker, session, schema, current: None, is_begun: false })
}

impl ResultStream {
    /// The next bytes, and whether they are the last.
    async fn next(mut self) -> Result<(ResultStream, Vec<Bytes>, bool)> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        self.session.check_valid()?;
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            bytes.extend(self.maker.heading(&self.schema).map_err(of_table)?);
            return Ok((self, bytes, false));
        }
        if self.current.is_none() {
            self.current = self.running.next().await?;
        }
        let Some(current) = self.current.take() else {
            bytes.extend(self.maker.end());
            return Ok((self, bytes, true));
        };
        let session = self.session.clone();
        session.run_blocking(move |_| self.piece(&current, bytes).map_err(of_table)).await
    }

    /// The bytes of the first remaining rows. Blocks.
    fn piece(
        mut self,
        current: &Dataset,
        mut bytes: Vec<Bytes>,
    ) -> arrowwood::Result<(ResultStream, Vec<Bytes>, bool)> {
        let all = current.len()?;
        if all > 0 {
            let (made, rows) = self.maker.piece(current)?;
            bytes.extend(made);
            if rows < all {
                self.current = Some(current.slice(rows, all)?);
            }
        }
        Ok((self, bytes, false))
    }
}

impl BodySource for ResultStream {
    async fn step(self) -> BodyStep<ResultStream> {
        let session = self.session.clone();
        match self.next().await {
            Ok((results, bytes, false)) => BodyStep::Data(results, bytes),
            Ok((_, bytes, true)) => BodyStep::End(bytes),
            Err(refusal) => {
                session.on_failure(&refusal);
                BodyStep::Failed(io::Error::other(refusal))
            }
        }
    }
}
