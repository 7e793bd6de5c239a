//! Computes sums, means and other aggregates of groups of rows. Reports its progress, and ends when its client
//! disconnects.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrowwood::mapping::MutexExt;
use arrowwood::{AggregateFunction, AggregationProgress, Dataset, Error, ErrorKind, Predicate};
use bytes::Bytes;
use hyper::Response;
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use super::cells::{columns, table};
use super::export::{ExportFormat, saved};
use super::state::ViewSession;
use super::value_condition;
use crate::catalog::Snapshot;
use crate::http::{BodyPart, Problem, Query, ResponseBody, Result, ResultExt};
use crate::ops::{Share, too_much};
use crate::read::parse_condition_on;
use crate::session::Session;

pub(crate) const PARAMETERS: &[&str] = &["at", "of", "where", "sort", "descending", "format"];

/// The maximum number of keys of a request.
const MAX_KEYS: usize = 8;
/// The maximum number of functions of a request.
const MAX_FUNCTIONS: usize = 16;
/// The maximum number of groups in memory while rows are read.
const MAX_GROUPS: usize = 1_000_000;
/// The maximum number of groups in a response.
const MAX_SHOWN: u64 = 1_000;
/// The maximum number of rows for medians, which have all values in memory.
const MAX_MEDIAN_ROWS: u64 = 1 << 25;
/// The size in bytes of a group.
const GROUP_BYTES: usize = 64;
/// The size in bytes of each key and function of a group.
const CELL_BYTES: usize = 24;
/// The size in bytes of each value of a median.
const MEDIAN_VALUE_BYTES: usize = 16;
/// The minimum and the maximum number of rows between two checks of the number of groups. Each row may be a group: the
/// less memory there is for groups, the fewer rows.
const MIN_STEP_ROWS: usize = 1 << 14;
const MAX_STEP_ROWS: usize = 1 << 20;
/// The part of the memory that the rows of a step may take: one in so many.
const STEP_SHARE: usize = 4;
/// The factor by which the memory grows when groups had no room.
const GROWTH: usize = 4;
/// The bytes for each row of a step, which may be a group and is copied.
const ROW_BYTES: usize = 160;
/// The interval of reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// A parsed request.
struct GroupRequest {
    rows: Dataset,
    /// The names of the columns to group by.
    by: Vec<String>,
    /// The numbers of these columns.
    keys: Vec<usize>,
    /// The functions, each with the name of its column.
    functions: Vec<(AggregateFunction, String)>,
    condition: Option<Predicate>,
    /// The number of a column of the result, and true if the order is descending.
    sort: Option<(usize, bool)>,
    is_saved: bool,
    /// The maximum memory in bytes.
    max_bytes: usize,
}

/// The response, or all groups if they are saved.
struct GroupResult {
    response: Json,
    groups: Option<Dataset>,
}

/// The memory of an aggregation, which its threads check.
struct MemoryCheck<'a> {
    share: &'a mut Share,
    /// The problem of the check that has stopped the aggregation.
    problem: Option<Problem>,
}

/// The reason why grouping failed.
enum GroupError {
    /// The groups need more memory.
    Memory,
    Refused(Problem),
}

/// The progress of an aggregation. Its threads store the numbers, and reports load them; `is_given_up` goes the other
/// way. A report of numbers that don't belong together does no harm, so relaxed ordering is enough.
#[derive(Default)]
struct GroupProgress {
    /// The number of rows read so far.
    searched: AtomicU64,
    /// The number of rows to be read.
    total: AtomicU64,
    /// The number of groups found so far.
    groups: AtomicU64,
    /// Set when the client has disconnected.
    is_given_up: AtomicBool,
}

/// An aggregation in progress.
pub(crate) struct Grouping {
    session: Session,
    progress: Arc<GroupProgress>,
    /// `None` after the first step.
    request: Option<GroupRequest>,
    /// The task of the aggregation, from the first step on.
    work: Option<JoinHandle<Result<GroupResult>>>,
}

impl Drop for Grouping {
    fn drop(&mut self) {
        self.progress.is_given_up.store(true, Ordering::Relaxed);
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

impl GroupRequest {
    fn from_query(snapshot: Snapshot, query: &Query, max_bytes: usize) -> Result<GroupRequest> {
        let rows = snapshot.rows;
        let keys = if query.get("at")?.is_some() { columns(&rows, query)? } else { Vec::new() };
        let functions = query.all("of").map(|text| parse_function(&rows, text)).collect::<Result<Vec<_>>>()?;
        if keys.len() > MAX_KEYS || functions.len() > MAX_FUNCTIONS {
            let detail = format!("at most {MAX_KEYS} columns to group by and {MAX_FUNCTIONS} functions are expected");
            return Err(Problem::bad_request(detail));
        }

        let condition = query.get("where")?.map(|text| parse_condition_on(text, &rows)).transpose()?;
        let num_columns = keys.len() + functions.len() + 1;
        let sort = query.number::<usize>("sort")?;
        if sort.is_some_and(|column| column >= num_columns) {
            return Err(Problem::bad_request(format!("sort: the number of a column below {num_columns} is expected")));
        }
        let descending = query.flag("descending")?;

        let len = rows.len().or_table_problem()?;
        if len > MAX_MEDIAN_ROWS && functions.iter().any(|(function, _)| *function == AggregateFunction::Median) {
            let detail = format!(
                "median: it keeps all values, and {len} rows are too many for a look, at most {MAX_MEDIAN_ROWS}"
            );
            return Err(Problem::bad_request(detail));
        }

        let request = GroupRequest {
            by: keys.iter().map(|&column| column_name(&rows, column)).collect(),
            keys,
            functions: functions.iter().map(|&(function, column)| (function, column_name(&rows, column))).collect(),
            condition,
            sort: sort.map(|column| (column, descending)),
            is_saved: query.get("format")?.is_some(),
            max_bytes,
            rows,
        };

        // Groups no rows: a column that can't be grouped, or has no sum, is an error of the request.
        let no_rows = request.rows.head(0).or_table_problem()?;
        let no_groups = request.groups(&no_rows, max_bytes, &|_| Ok(())).or_table_problem()?;
        assert!(no_groups.num_columns() == num_columns, "{} columns of {num_columns}", no_groups.num_columns());
        request.order(&no_groups).or_table_problem()?;
        Ok(request)
    }

    /// Returns the keys, the number of rows, and the functions of each group of `rows`, in `memory` bytes; columns are
    /// named by their numbers.
    fn groups(
        &self,
        rows: &Dataset,
        memory: usize,
        on_progress: &(dyn Fn(AggregationProgress) -> arrowwood::Result<()> + Sync),
    ) -> arrowwood::Result<Dataset> {
        // A prefix that no key has.
        let mut prefix = String::new();
        while self.by.iter().any(|key| key.starts_with(&prefix)) {
            prefix.push('~');
        }
        let step = (self.max_bytes / STEP_SHARE / ROW_BYTES).clamp(MIN_STEP_ROWS, MAX_STEP_ROWS);
        let mut aggregation = rows.aggregate(&self.by).count_rows(&prefix).on_progress(step, on_progress);
        let counts_values = self.functions.iter().any(|(function, _)| *function == AggregateFunction::NUnique);
        if counts_values {
            // The groups of pairs of key and value are rows that are grouped again, as a step.
            aggregation = aggregation.memory_limit((memory - memory / STEP_SHARE) as u64);
        } else if !self.by.is_empty() {
            aggregation = aggregation.memory_limit(memory as u64);
        }
        for (number, (function, column)) in self.functions.iter().enumerate() {
            aggregation = aggregation.column_as(&format!("{prefix}{number}"), column, *function);
        }
        if let Some(condition) = &self.condition {
            aggregation = aggregation.filter(condition.clone());
        }
        let groups = aggregation.finish()?;
        let numbers: Vec<String> = (0..groups.num_columns()).map(|number| number.to_string()).collect();
        groups.with_names(&numbers)
    }

    /// Returns the numbers of the groups in the requested order.
    fn order(&self, groups: &Dataset) -> arrowwood::Result<Vec<u64>> {
        match self.sort {
            Some((column, descending)) => groups.sort_indices(&[(column.to_string(), descending)]),
            None if self.is_saved => Ok((0..groups.len()?).collect()),
            None => Ok((0..groups.len()?.min(MAX_SHOWN)).collect()),
        }
    }

    /// Returns the memory in bytes of the aggregation, for all rows and the given number of groups.
    fn memory(&self, groups: usize) -> arrowwood::Result<usize> {
        let medians = self.functions.iter().filter(|(function, _)| *function == AggregateFunction::Median).count();
        let rows = usize::try_from(self.rows.len()?).unwrap_or(usize::MAX);
        let values = rows.saturating_mul(medians * MEDIAN_VALUE_BYTES);
        let group = GROUP_BYTES + CELL_BYTES * (self.by.len() + self.functions.len());
        Ok(groups.saturating_mul(group).saturating_add(values))
    }

    /// Groups the rows, in as much memory as necessary.
    fn run(&self, progress: &GroupProgress, share: &mut Share) -> Result<GroupResult> {
        share.grow(self.memory(0).or_table_problem()?)?;
        loop {
            match self.run_in(progress, share) {
                // The aggregation fails before it reads rows whose groups have no room, so that a retry costs little.
                Err(GroupError::Memory) if share.bytes() < self.max_bytes => {
                    share.grow((GROWTH * share.bytes()).min(self.max_bytes))?
                }
                Err(GroupError::Memory) => return Err(too_much(self.max_bytes)),
                Err(GroupError::Refused(problem)) => return Err(problem),
                Ok(result) => return Ok(result),
            }
        }
    }

    /// Groups the rows in the memory of the share.
    fn run_in(&self, progress: &GroupProgress, share: &mut Share) -> Result<GroupResult, GroupError> {
        let memory = share.bytes();
        let state = Mutex::new(MemoryCheck { share, problem: None });
        let result = self.aggregate(progress, memory, &|groups, text_bytes| {
            let MemoryCheck { share, problem } = &mut *state.lock_ignoring_poison();
            let bytes = self.memory(groups).unwrap_or(usize::MAX).saturating_add(text_bytes);
            if let Err(refusal) = share.check_time().and_then(|()| share.grow(bytes)) {
                // Only errors of the library stop the aggregation: the problem is taken from the state afterwards.
                let stopped = Error::new(ErrorKind::Closed, refusal.detail().to_owned());
                *problem = Some(refusal);
                return Err(stopped);
            }
            Ok(())
        });
        let MemoryCheck { problem, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem {
            return Err(GroupError::Refused(problem));
        }
        match result {
            Ok(result) => Ok(result),
            // The system's own errors have a number.
            Err(e) if e.kind() == ErrorKind::Io && e.errno().is_none() => Err(GroupError::Memory),
            Err(e) => Err(GroupError::Refused(Problem::from_table_error(&e))),
        }
    }

    /// Groups the rows in `memory` bytes. Calls `check` with the number of groups so far, and with the bytes of their
    /// keys and values once these are known.
    fn aggregate(
        &self,
        progress: &GroupProgress,
        memory: usize,
        check: &(dyn Fn(usize, usize) -> arrowwood::Result<()> + Sync),
    ) -> arrowwood::Result<GroupResult> {
        let groups = self.groups(&self.rows, memory, &|current| {
            progress.searched.store(current.rows, Ordering::Relaxed);
            progress.total.store(current.of, Ordering::Relaxed);
            progress.groups.store(current.groups as u64, Ordering::Relaxed);
            if progress.is_given_up.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Closed, "the client has gone"));
            }
            if current.groups > MAX_GROUPS {
                let message =
                    format!("there are more than {MAX_GROUPS} groups; group by another column, or set a condition");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            check(current.groups, 0)
        })?;
        // Keys and values that are texts may be of any length.
        check(groups.len()? as usize, usize::try_from(groups.nbytes()?).unwrap_or(usize::MAX))?;

        let order = self.order(&groups)?;
        if self.is_saved {
            let groups = groups.rows_at(&order)?.with_names(&unique_names(self.titles()))?;
            return Ok(GroupResult { response: Json::Null, groups: Some(groups) });
        }

        let order: Vec<u64> = order.into_iter().take(MAX_SHOWN as usize).collect();
        let shown = groups.rows_at(&order)?;
        let mut response = table(&shown, self.by.len())?;
        response["conditions"] = self.conditions(&shown, progress)?.into();
        if let Some(columns) = response["columns"].as_array_mut() {
            columns.iter_mut().zip(self.titles()).for_each(|(column, title)| column["name"] = title.into());
        }
        response["groups"] = groups.len()?.into();
        response["of"] = self.rows.len()?.into();
        response["keys"] = self.by.len().into();
        Ok(GroupResult { response, groups: None })
    }

    /// Returns the condition for the keys of each of the `shown` groups, if there is one that can be written.
    fn conditions(&self, shown: &Dataset, progress: &GroupProgress) -> arrowwood::Result<Vec<Option<String>>> {
        let schema = self.rows.schema();
        let start = Instant::now();
        // For each group the tests of its keys; `None` if a key has no test.
        let mut groups: Vec<Option<Vec<String>>> = vec![Some(Vec::new()); shown.len()? as usize];
        for (number, &key) in self.keys.iter().enumerate() {
            let values = shown.select_at(&[number])?;
            let column = self.rows.select_at(&[key])?;
            let tests = value_condition::conditions(
                (schema, key),
                &values,
                &column,
                |index| self.rows.first_row() + index,
                || start.elapsed() < value_condition::SEARCH_TIMEOUT && !progress.is_given_up.load(Ordering::Relaxed),
            )?;
            for (group, test) in groups.iter_mut().zip(tests) {
                match (group.as_mut(), test) {
                    (Some(tests), Some(test)) => tests.push(test),
                    _ => *group = None,
                }
            }
        }
        let conditions = groups.into_iter().map(|tests| match tests {
            Some(tests) if !tests.is_empty() => Some(tests.join(" and ")),
            _ => None,
        });
        Ok(conditions.collect())
    }

    /// Returns the names of the columns of groups.
    fn titles(&self) -> Vec<String> {
        let keys = self.by.iter().cloned().chain(["rows".to_owned()]);
        keys.chain(self.functions.iter().map(|(function, column)| format!("{function} of {column}"))).collect()
    }
}

fn column_name(rows: &Dataset, column: usize) -> String {
    rows.schema().field(column).name().clone()
}

/// Makes names unique: the second of two equal names gets a number.
fn unique_names(names: Vec<String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let mut candidate = name.clone();
        let mut number = 2;
        while unique.contains(&candidate) {
            candidate = format!("{name} {number}");
            number += 1;
        }
        unique.push(candidate);
    }
    unique
}

/// Sends all requested groups as a file. Ends when the client disconnects.
pub(crate) async fn save(
    page: &ViewSession,
    snapshot: Snapshot,
    query: Query,
    form: ExportFormat,
) -> Result<Response<ResponseBody>> {
    let session = &page.session;
    let mut grouping =
        session.run_blocking(move |session| Grouping::from_query(snapshot, &query, session.clone())).await?;
    let groups = loop {
        let result = grouping.wait().await.map_err(|e| Problem::internal(e.to_string()))?;
        if let Some(groups) = result.transpose()?.and_then(|result| result.groups) {
            break groups;
        }
    };
    // The groups are in memory until they are sent.
    let bytes = groups.nbytes().or_table_problem()?;
    let share = session.shared.queries.try_share(usize::try_from(bytes).unwrap_or(usize::MAX));
    let share = share.ok_or_else(|| Problem::unavailable("the memory for queries is taken; try again"))?;
    Ok(saved(page, groups, form).await?.map(|body| body.holding(share)))
}

/// Parses a function and the number of its column: `mean:3`.
fn parse_function(rows: &Dataset, text: &str) -> Result<(AggregateFunction, usize)> {
    const EXPECTED: &str = "of: a function and the number of a column are expected, such as mean:3";
    let Some((name, column)) = text.split_once(':') else { return Err(Problem::bad_request(EXPECTED)) };
    let function = name.parse().map_err(|e: Error| Problem::bad_request(format!("of: {}", e.message())))?;
    match column.parse() {
        Ok(column) if column < rows.num_columns() => Ok((function, column)),
        _ => Err(Problem::bad_request(EXPECTED)),
    }
}

impl Grouping {
    /// Parses the request `query`. Blocks.
    pub fn from_query(snapshot: Snapshot, query: &Query, session: Session) -> Result<Grouping> {
        let request = Some(GroupRequest::from_query(snapshot, query, session.shared.limits.query_memory)?);
        Ok(Grouping { session, progress: Arc::default(), request, work: None })
    }

    pub async fn step(mut self) -> io::Result<BodyPart<Grouping>> {
        if self.session.is_stopping() || !self.session.is_valid() {
            return Err(io::Error::other("the server is stopping"));
        }
        let (report, next) = match self.wait().await? {
            Some(Ok(result)) => (result.response, None),
            // The response has begun: the last line has the error.
            Some(Err(problem)) => (self.session.error_line(problem), None),
            None => {
                let report = json!({
                    "searched": self.progress.searched.load(Ordering::Relaxed),
                    "of": self.progress.total.load(Ordering::Relaxed),
                    "found": self.progress.groups.load(Ordering::Relaxed),
                });
                (report, Some(self))
            }
        };
        Ok((vec![Bytes::from(format!("{report}\n"))], next))
    }

    /// Waits for the result, but at most until the next report, for which it returns `None`.
    async fn wait(&mut self) -> io::Result<Option<Result<GroupResult>>> {
        if let Some(request) = self.request.take() {
            let progress = self.progress.clone();
            let mut budget = self.session.budget();
            self.work = Some(tokio::spawn(async move {
                budget.run_blocking(budget.step(), move |share| request.run(&progress, share)).await
            }));
        }
        let Some(work) = &mut self.work else { return Err(io::Error::other("the work was given up")) };
        match tokio::time::timeout(REPORT_INTERVAL, work).await {
            Ok(Ok(result)) => Ok(Some(result)),
            Ok(Err(_)) => Err(io::Error::other("the work was given up")),
            Err(_) => Ok(None),
        }
    }
}
