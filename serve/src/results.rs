//! Sends results of the engine like rows of tables: buffers of files in place.

use std::io;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, Error};
use bytes::Bytes;

use crate::frames::Framing;
use crate::outgoing::{Outgoing, Step, Steps};
use crate::reading::{Form, Maker};
use crate::refusal::{Refusal, Result};
use crate::session::Session;
use crate::statement::Running;

/// The state of an answer.
struct Results {
    running: Running,
    maker: Maker,
    session: Session,
    schema: SchemaRef,
    /// Rows being sent.
    current: Option<Dataset>,
    is_begun: bool,
}

/// The body of an answer over HTTP.
pub(crate) fn body(running: Running, form: Form, session: Session) -> Result<Outgoing> {
    let maker = Maker::of(form, &running.schema()).map_err(|e| Refusal::of_table(&e))?;
    Ok(steps(running, maker, session))
}

/// The body of Flight's answer.
pub(crate) fn flight_body(running: Running, session: Session) -> Result<Outgoing> {
    let maker = Maker::arrow(&running.schema(), Framing::Flight).map_err(|e| Refusal::of_table(&e))?;
    Ok(steps(running, maker, session))
}

fn steps(running: Running, maker: Maker, session: Session) -> Outgoing {
    let schema = running.schema();
    Outgoing::steps(Results { running, maker, session, schema, current: None, is_begun: false })
}

impl Results {
    /// The next bytes, and whether they are the last.
    async fn next(mut self) -> Result<(Results, Vec<Bytes>, bool)> {
        let of_table = |e: Error| Refusal::of_table(&e);
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
        session.work(move |_| self.piece(&current, bytes).map_err(of_table)).await
    }

    /// The bytes of the first remaining rows. Blocks.
    fn piece(mut self, current: &Dataset, mut bytes: Vec<Bytes>) -> arrowwood::Result<(Results, Vec<Bytes>, bool)> {
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

impl Steps for Results {
    async fn step(self) -> Step<Results> {
        let session = self.session.clone();
        match self.next().await {
            Ok((results, bytes, false)) => Step::Data(results, bytes),
            Ok((_, bytes, true)) => Step::End(bytes),
            Err(refusal) => {
                session.failed(&refusal);
                Step::Failed(io::Error::other(refusal))
            }
        }
    }
}
