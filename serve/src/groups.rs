//! [`Grouping`]: sums, means and other aggregates of groups of rows. Reports its progress, and ends when its client
//! disconnects.

use arrowwood::mapping::MutexExt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrowwood::{AggregateFunction, AggregationProgress, Dataset, Error, ErrorKind, Predicate};
use bytes::Bytes;
use hyper::Response;
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use crate::budget::{Share, too_much};
use crate::cells::{columns, table};
use crate::condition::parse_condition_on;
use crate::export::{ExportFormat, saved};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response_body::{BodySource, BodyStep, ResponseBody};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::value_condition;

pub(crate) const PARAMETERS: &[&str] = &["at", "of", "where", "sort", "descending", "format"];

/// The maximum number of keys and functions of a request, of groups kept while rows are read, and of groups in an
/// answer.
const KEYS: usize = 8;
const FUNCTIONS: usize = 16;
const GROUPS: usize = 1_000_000;
const SHOWN: u64 = 1_000;
/// The maximum number of rows for medians, which keep all values.
const MEDIANS: u64 = 1 << 25;
/// The size in bytes of a group, of each key or function, and of each value kept for a median.
const GROUP: usize = 64;
const CELL: usize = 24;
const KEPT: usize = 16;
/// The least and the most rows between two looks at the number of groups. Each may be a group: where little memory is left for
/// them, there are fewer rows.
const STEP: [usize; 2] = [1 << 14, 1 << 20];
/// The bytes for each row of a step, which may be a group and is copied.
const ROW: usize = 160;
/// The interval of reports.
const REPORT: Duration = Duration::from_millis(200);

/// A parsed request.
struct GroupRequest {
    rows: Dataset,
    by: Vec<String>,
    /// The numbers of these columns.
    keys: Vec<usize>,
    of: Vec<(AggregateFunction, String)>,
    condition: Option<Predicate>,
    /// A column of the answer, by its number.
    sort: Option<(usize, bool)>,
    is_saved: bool,
    /// The most bytes that it may take, all together.
    most: usize,
}

/// The summary of the groups, and all groups if they are saved.
struct GroupResult {
    told: Json,
    groups: Option<Dataset>,
}

/// Why groups were not made.
enum GroupError {
    /// They need more memory.
    Memory,
    Refused(Problem),
}

/// The progress.
#[derive(Default)]
struct GroupProgress {
    searched: AtomicU64,
    of: AtomicU64,
    groups: AtomicU64,
    is_given_up: AtomicBool,
}

/// An aggregation in progress.
pub(crate) struct Grouping {
    session: Session,
    going: Arc<GroupProgress>,
    /// `None` after the first step.
    asked: Option<GroupRequest>,
    work: Option<JoinHandle<Result<GroupResult>>>,
}

impl Drop for Grouping {
    fn drop(&mut self) {
        self.going.is_given_up.store(true, Ordering::Relaxed);
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

impl GroupRequest {
    fn from_query(snapshot: Snapshot, query: &Query, most: usize) -> Result<GroupRequest> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let rows = snapshot.rows;
        let name = |column: usize| rows.schema().field(column).name().clone();
        let keys = if query.get("at")?.is_some() { columns(&rows, query)? } else { Vec::new() };
        let functions = query.all("of").map(|text| function(&rows, text)).collect::<Result<Vec<_>>>()?;
        if keys.len() > KEYS || functions.len() > FUNCTIONS {
            let detail = format!("at most {KEYS} columns to group by and {FUNCTIONS} functions are expected");
            return Err(Problem::bad_request(detail));
        }
        let condition = query.get("where")?.map(|text| parse_condition_on(text, &rows)).transpose()?;
        let wide = keys.len() + functions.len() + 1;
        let sort = query.number::<usize>("sort")?;
        if sort.is_some_and(|column| column >= wide) {
            return Err(Problem::bad_request(format!("sort: the number of a column below {wide} is expected")));
        }
        let descending = query.flag("descending")?;
        let len = rows.len().map_err(of_table)?;
        if len > MEDIANS && functions.iter().any(|(function, _)| *function == AggregateFunction::Median) {
            let detail =
                format!("median: it keeps all values, and {len} rows are too many for a look, at most {MEDIANS}");
            return Err(Problem::bad_request(detail));
        }
        let asked = GroupRequest {
            by: keys.iter().copied().map(name).collect(),
            keys,
            of: functions.into_iter().map(|(function, column)| (function, name(column))).collect(),
            condition,
            sort: sort.map(|column| (column, descending)),
            is_saved: query.get("format")?.is_some(),
            most,
            rows,
        };
        // A column that can't be grouped, or has no sum, is an error of the request.
        let none = asked.rows.head(0).map_err(of_table)?;
        let none = asked.groups(&none, most, &|_| Ok(())).map_err(of_table)?;
        asked.order(&none).map_err(of_table)?;
        Ok(asked)
    }

    /// The keys, the number of rows, and the functions of each group of `rows`, in `memory` bytes; columns are named by their
    /// numbers.
    fn groups(
        &self,
        rows: &Dataset,
        memory: usize,
        watch: &(dyn Fn(AggregationProgress) -> arrowwood::Result<()> + Sync),
    ) -> arrowwood::Result<Dataset> {
        // Names that no key has.
        let mut free = String::new();
        while self.by.iter().any(|key| key.starts_with(&free)) {
            free.push('~');
        }
        let step = (self.most / 4 / ROW).clamp(STEP[0], STEP[1]);
        let mut asked = rows.aggregate(&self.by).count_rows(&free).on_progress(step, watch);
        let counts_values = self.of.iter().any(|(function, _)| *function == AggregateFunction::NUnique);
        if counts_values {
            // The groups of pairs of key and value are rows that are grouped again.
            asked = asked.memory_limit(memory as u64 / 4 * 3);
        } else if !self.by.is_empty() {
            asked = asked.memory_limit(memory as u64);
        }
        for (number, (function, column)) in self.of.iter().enumerate() {
            asked = asked.column_as(&format!("{free}{number}"), column, *function);
        }
        if let Some(condition) = &self.condition {
            asked = asked.filter(condition.clone());
        }
        let found = asked.finish()?;
        let numbers: Vec<String> = (0..found.num_columns()).map(|number| number.to_string()).collect();
        found.with_names(&numbers)
    }

    /// The numbers of the groups in the requested order.
    fn order(&self, groups: &Dataset) -> arrowwood::Result<Vec<u64>> {
        match self.sort {
            Some((column, descending)) => groups.sort_indices(&[(column.to_string(), descending)]),
            None if self.is_saved => Ok((0..groups.len()?).collect()),
            None => Ok((0..groups.len()?.min(SHOWN)).collect()),
        }
    }

    /// The memory in bytes of the aggregation, for all rows and the given number of groups.
    fn memory(&self, groups: usize) -> arrowwood::Result<usize> {
        let kept = self.of.iter().filter(|(function, _)| *function == AggregateFunction::Median).count();
        let values = usize::try_from(self.rows.len()?).unwrap_or(usize::MAX).saturating_mul(kept * KEPT);
        let each = GROUP + CELL * (self.by.len() + self.of.len());
        Ok(groups.saturating_mul(each).saturating_add(values))
    }

    fn answer(&self, going: &GroupProgress, share: &mut Share) -> Result<GroupResult> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        share.grow(self.memory(0).map_err(of_table)?)?;
        loop {
            match self.attempt(going, share) {
                // It is known before the rows are looked at for which there is no room.
                Err(GroupError::Memory) if share.bytes() < self.most => {
                    share.grow((4 * share.bytes()).min(self.most))?
                }
                Err(GroupError::Memory) => return Err(too_much(self.most)),
                Err(GroupError::Refused(refusal)) => return Err(refusal),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Groups the rows in the memory of the share.
    fn attempt(&self, going: &GroupProgress, share: &mut Share) -> Result<GroupResult, GroupError> {
        let memory = share.bytes();
        let share = Mutex::new((share, None));
        // An error of the library stops the aggregation; the refusal is the answer.
        let found = self.watched(going, memory, &|groups, texts| {
            let mut share = share.lock_ignoring_poison();
            let taken = self.memory(groups).unwrap_or(usize::MAX).saturating_add(texts);
            let refused = share.0.check_time().and_then(|()| share.0.grow(taken));
            refused.map_err(|refusal| {
                let stopped = Error::new(ErrorKind::Closed, refusal.detail().to_owned());
                share.1 = Some(refusal);
                stopped
            })
        });
        let refusal = share.into_inner().unwrap_or_else(PoisonError::into_inner).1;
        match (refusal, found) {
            (Some(refusal), _) => Err(GroupError::Refused(refusal)),
            // Those of the system have a number.
            (None, Err(e)) if e.kind() == ErrorKind::Io && e.errno().is_none() => Err(GroupError::Memory),
            (None, found) => found.map_err(|e| GroupError::Refused(Problem::from_table_error(&e))),
        }
    }

    /// Groups the rows in `memory` bytes. `check` is told the number of groups, and the bytes of their keys and values once these are known.
    fn watched(
        &self,
        going: &GroupProgress,
        memory: usize,
        check: &(dyn Fn(usize, usize) -> arrowwood::Result<()> + Sync),
    ) -> arrowwood::Result<GroupResult> {
        let watch = |progress: AggregationProgress| {
            going.searched.store(progress.rows, Ordering::Relaxed);
            going.of.store(progress.of, Ordering::Relaxed);
            going.groups.store(progress.groups as u64, Ordering::Relaxed);
            if going.is_given_up.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Closed, "the client has gone"));
            }
            if progress.groups > GROUPS {
                let message =
                    format!("there are more than {GROUPS} groups; group by another column, or set a condition");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            check(progress.groups, 0)
        };
        let groups = self.groups(&self.rows, memory, &watch)?;
        // Keys and values that are texts may be of any length.
        check(groups.len()? as usize, usize::try_from(groups.nbytes()?).unwrap_or(usize::MAX))?;
        let order = self.order(&groups)?;
        if self.is_saved {
            let groups = groups.rows_at(&order)?.with_names(&distinct(self.titles()))?;
            return Ok(GroupResult { told: Json::Null, groups: Some(groups) });
        }
        let order: Vec<u64> = order.into_iter().take(SHOWN as usize).collect();
        let shown = groups.rows_at(&order)?;
        let mut told = table(&shown, self.by.len())?;
        let begun = Instant::now();
        let goes_on = || begun.elapsed() < value_condition::PATIENCE && !going.is_given_up.load(Ordering::Relaxed);
        told["conditions"] = self.conditions(&shown, goes_on)?.into();
        if let Some(columns) = told["columns"].as_array_mut() {
            columns.iter_mut().zip(self.titles()).for_each(|(column, title)| column["name"] = title.into());
        }
        told["groups"] = groups.len()?.into();
        told["of"] = self.rows.len()?.into();
        told["keys"] = self.by.len().into();
        Ok(GroupResult { told, groups: None })
    }

    /// The condition for the keys of each of the `shown` groups, where there is one.
    fn conditions(&self, shown: &Dataset, goes_on: impl Fn() -> bool) -> arrowwood::Result<Vec<Option<String>>> {
        let schema = self.rows.schema();
        let mut found: Vec<Option<Vec<String>>> = vec![Some(Vec::new()); usize::try_from(shown.len()?).unwrap_or(0)];
        for (at, &key) in self.keys.iter().enumerate() {
            let [values, within] = [shown.select_at(&[at])?, self.rows.select_at(&[key])?];
            let number_of = |place| self.rows.first_row() + place;
            let tests = value_condition::conditions((schema, key), &values, &within, number_of, &goes_on)?;
            for (found, test) in found.iter_mut().zip(tests) {
                *found = found.take().zip(test).map(|(tests, test)| [tests, vec![test]].concat());
            }
        }
        Ok(found
            .into_iter()
            .map(|tests| tests.filter(|tests| !tests.is_empty()).map(|tests| tests.join(" and ")))
            .collect())
    }

    /// The names of the columns of groups.
    fn titles(&self) -> Vec<String> {
        let keys = self.by.iter().cloned().chain(["rows".to_owned()]);
        keys.chain(self.of.iter().map(|(function, column)| format!("{function} of {column}"))).collect()
    }
}

/// Names made unique: the second of two equal names gets a number.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let others = (2..).map(|number| format!("{name} {number}"));
        let free = std::iter::once(name.clone()).chain(others).find(|name| !found.contains(name));
        found.push(free.unwrap_or(name));
    }
    found
}

/// All requested groups, as a file. Ends when the client disconnects.
pub(crate) async fn save(
    session: &Session,
    snapshot: Snapshot,
    query: Query,
    form: ExportFormat,
) -> Result<Response<ResponseBody>> {
    let mut grouping =
        session.run_blocking(move |session| Grouping::from_query(snapshot, &query, session.clone())).await?;
    let groups = loop {
        let waited = grouping.wait().await.map_err(|e| Problem::internal(e.to_string()))?;
        if let Some(answer) = waited.transpose()?.and_then(|answer| answer.groups) {
            break answer;
        }
    };
    // They are kept in memory until they are sent.
    let bytes = groups.nbytes().map_err(|e| Problem::from_table_error(&e))?;
    let share = session.shared.queries.try_share(usize::try_from(bytes).unwrap_or(usize::MAX));
    let share = share.ok_or_else(|| Problem::unavailable("the memory for queries is taken; try again"))?;
    Ok(saved(session, groups, form).await?.map(|body| body.holding(share)))
}

/// A function and the number of its column: `mean:3`.
fn function(rows: &Dataset, text: &str) -> Result<(AggregateFunction, usize)> {
    let wrong = || Problem::bad_request("of: a function and the number of a column are expected, such as mean:3");
    let (name, column) = text.split_once(':').ok_or_else(wrong)?;
    let function = name.parse().map_err(|e: Error| Problem::bad_request(format!("of: {}", e.message())))?;
    let column = column.parse().ok().filter(|column| *column < rows.num_columns()).ok_or_else(wrong)?;
    Ok((function, column))
}

impl Grouping {
    /// Parses the request `query`. Blocks.
    pub fn from_query(snapshot: Snapshot, query: &Query, session: Session) -> Result<Grouping> {
        let asked = Some(GroupRequest::from_query(snapshot, query, session.shared.limits.query_memory)?);
        Ok(Grouping { session, going: Arc::default(), asked, work: None })
    }

    /// Waits for the answer, but at most until the next report.
    async fn wait(&mut self) -> io::Result<Option<Result<GroupResult>>> {
        if let Some(asked) = self.asked.take() {
            let going = self.going.clone();
            let mut budget = self.session.budget();
            self.work = Some(tokio::spawn(async move {
                budget.run_blocking(budget.step(), move |share| asked.answer(&going, share)).await
            }));
        }
        let given_up = || io::Error::other("the work was given up");
        let work = self.work.as_mut().ok_or_else(given_up)?;
        match tokio::time::timeout(REPORT, work).await {
            Ok(done) => done.map(Some).map_err(|_| given_up()),
            Err(_) => Ok(None),
        }
    }
}

impl BodySource for Grouping {
    async fn step(mut self) -> BodyStep<Grouping> {
        if self.session.is_stopping() || !self.session.is_valid() {
            return BodyStep::Failed(io::Error::other("the server is stopping"));
        }
        let line = |json: Json| vec![Bytes::from(json.to_string() + "\n")];
        match self.wait().await {
            Ok(Some(Ok(answer))) => BodyStep::End(line(answer.told)),
            // The answer has begun: the last line has the error.
            Ok(Some(Err(refusal))) => BodyStep::End(line(self.session.error_line(refusal))),
            Ok(None) => {
                let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
                let report = json!({
                    "searched": of(&self.going.searched), "of": of(&self.going.of), "found": of(&self.going.groups),
                });
                BodyStep::Data(self, line(report))
            }
            Err(e) => BodyStep::Failed(e),
        }
    }
}
