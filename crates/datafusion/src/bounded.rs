//! Functions whose results can be far larger than what they are of, such as `repeat`: refused where the process has not the
//! memory. DataFusion's pool has what sorts, joins and groups keep, and not what a function makes.

use std::fs;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Schema,
};
use datafusion::common::{DFSchema, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Results below this are made without a look at the process.
const SMALL: u128 = 1 << 20;
/// What a program takes before it answers anything.
const OWN: u64 = 512 << 20;

/// How large a result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// A text, and how many times it is repeated.
    Repeat,
    /// A number of characters is the second argument.
    Pad,
    /// A list from one number or time to another.
    Range,
    /// A value, and how many of it.
    Fill,
    /// A list, and its new length.
    Resize,
    /// A text, what is replaced in it, and by what; or by a pattern, which may be between any two characters.
    Replace,
    Pattern,
    /// As large as the arguments together.
    Sum,
    /// The elements of a list as texts, with another between each two.
    Listed,
    /// A number, after each character or element of one argument was compared with each of the other.
    Compared,
}

const FUNCTIONS: &[(&str, Growth)] = &[
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("range", Growth::Range),
    ("generate_series", Growth::Range),
    ("array_repeat", Growth::Fill),
    ("array_resize", Growth::Resize),
    ("replace", Growth::Replace),
    ("regexp_replace", Growth::Pattern),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::Sum),
    ("array_concat", Growth::Sum),
    ("array_append", Growth::Sum),
    ("array_prepend", Growth::Sum),
    ("make_array", Growth::Sum),
    ("array_to_string", Growth::Listed),
    ("levenshtein", Growth::Compared),
    ("array_has_all", Growth::Compared),
    ("array_has_any", Growth::Compared),
];

/// The most comparisons of a call, which nothing interrupts: they take some seconds.
const COMPARISONS: u128 = 4_000_000_000;

/// The most memory of its own that the process may have when a large result is made.
#[derive(Debug, Default)]
pub(crate) struct Most {
    bytes: AtomicU64,
    /// What results that are being made will take.
    reserved: AtomicU64,
}

/// The memory for a result, until it is made and the process has it.
#[derive(Debug)]
pub(crate) struct Reserved<'a>(&'a AtomicU64, u64);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Most {
    /// That for queries of so many bytes.
    pub fn set(&self, bytes: usize) {
        self.bytes.store(OWN.saturating_add((bytes as u64).saturating_mul(4)), Ordering::Relaxed);
    }

    /// Reserves memory for a result, so that several at once don't take the same.
    pub fn reserve(&self, bytes: u128, name: &str) -> Result<Reserved<'_>> {
        if bytes < SMALL {
            return Ok(Reserved(&self.reserved, 0));
        }
        let most = self.bytes.load(Ordering::Relaxed);
        let has = own_memory().unwrap_or(0);
        let left = |reserved: u64| most.saturating_sub(has).saturating_sub(reserved);
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        let more = |reserved| (wanted <= left(reserved)).then(|| reserved + wanted);
        match self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Reserved(&self.reserved, wanted)),
            Err(reserved) => {
                let message = format!("{name} would make {bytes} bytes, and there are {} left", left(reserved));
                Err(DataFusionError::ResourcesExhausted(message))
            }
        }
    }
}

/// Bytes of memory that the process has beside files.
fn own_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Puts bounded functions in the place of those that a session has.
pub(crate) fn bound(builder: &mut SessionStateBuilder, most: &Arc<Most>) {
    for function in builder.scalar_functions().iter_mut().flatten() {
        let growth = FUNCTIONS.iter().find(|(name, _)| *name == function.name());
        if let Some((_, growth)) = growth {
            let inner = function.inner().clone();
            let bounded = Bounded { inner, growth: *growth, most: most.clone() };
            *function = Arc::new(ScalarUDF::new_from_impl(bounded));
        }
    }
    let joined = ScalarUDF::new_from_impl(Joined {
        signature: Signature::user_defined(Volatility::Immutable),
        most: most.clone(),
    });
    builder.expr_planners().get_or_insert_default().push(Arc::new(Joining(Arc::new(joined))));
}

/// A function whose result may be large.
#[derive(Debug)]
struct Bounded {
    inner: Arc<dyn ScalarUDFImpl>,
    growth: Growth,
    most: Arc<Most>,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Bounded) -> bool {
        self.growth == other.growth && self.inner.name() == other.inner.name()
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // What concatenates constants while it plans makes no more than there was.
        self.inner.simplify(args, info)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.growth == Growth::Compared {
            check_comparisons(self.name(), &args)?;
        }
        let _reserved = self.most.reserve(predicted(self.growth, &args)?, self.name())?;
        self.inner.invoke_with_args(args)
    }
}

/// An argument, whose values are all the same if it is a scalar.
struct Argument {
    array: ArrayRef,
    is_scalar: bool,
}

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Argument> {
        Ok(match value {
            ColumnarValue::Array(array) => Argument { array: array.clone(), is_scalar: false },
            ColumnarValue::Scalar(value) => Argument { array: value.to_array()?, is_scalar: true },
        })
    }

    fn place(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }

    /// The bytes of a value; of nested ones the mean.
    fn bytes(&self, row: usize) -> u128 {
        let place = self.place(row);
        let bytes = match self.array.data_type() {
            DataType::Utf8 => self.array.as_string::<i32>().value_length(place) as u64,
            DataType::LargeUtf8 => self.array.as_string::<i64>().value_length(place) as u64,
            // The lower half of a view is its length.
            DataType::Utf8View => self.array.as_string_view().views().get(place).map_or(0, |view| *view as u32).into(),
            other => other.primitive_width().map_or_else(
                || (self.array.get_array_memory_size() / self.array.len().max(1)) as u64,
                |width| width as u64,
            ),
        };
        bytes.into()
    }

    /// The mean number of elements of a list, those of lists in it included; `None` for other values.
    fn elements(&self) -> Option<u128> {
        let mut inner = self.array.clone();
        if !inner.data_type().is_nested() {
            return None;
        }
        loop {
            inner = match inner.data_type() {
                DataType::List(_) => inner.as_list::<i32>().values().clone(),
                DataType::LargeList(_) => inner.as_list::<i64>().values().clone(),
                DataType::FixedSizeList(..) => inner.as_fixed_size_list().values().clone(),
                _ => break,
            };
        }
        Some(inner.len().div_ceil(self.array.len().max(1)) as u128)
    }

    /// The same with values as whole numbers.
    fn counted(self) -> Result<Argument> {
        let array = if self.array.data_type().is_integer() {
            cast(&self.array, &DataType::Int64)?
        } else {
            counts(&self.array)?
        };
        Ok(Argument { array, ..self })
    }

    fn number(&self, row: usize) -> i128 {
        let place = self.place(row);
        if self.array.is_null(place) { 0 } else { self.array.as_primitive::<Int64Type>().value(place).into() }
    }
}

/// Refuses steps whose parts have different signs: a month later and 30 days earlier may be the same day, and a list of such
/// days would not end.
fn check_steps(steps: &ArrayRef) -> Result<()> {
    if !matches!(steps.data_type(), DataType::Interval(_)) {
        return Ok(());
    }
    let steps = cast(steps, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let is_mixed = |step: IntervalMonthDayNano| {
        let signs = [i64::from(step.months), i64::from(step.days), step.nanoseconds].map(i64::signum);
        signs.contains(&1) && signs.contains(&-1)
    };
    if steps.as_primitive::<IntervalMonthDayNanoType>().iter().flatten().any(is_mixed) {
        return exec_err!("a step of months, days and seconds goes in one direction: got parts of different signs");
    }
    Ok(())
}

/// Times as nanoseconds, about. An interval has months of 28 days.
fn counts(array: &ArrayRef) -> Result<ArrayRef> {
    const DAY: i64 = 86_400_000_000_000;
    Ok(match array.data_type() {
        DataType::Interval(_) => {
            let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            let count = |value: IntervalMonthDayNano| {
                let days = i64::from(value.months) * 28 + i64::from(value.days);
                days.saturating_mul(DAY).saturating_add(value.nanoseconds)
            };
            Arc::new(intervals.unary::<_, Int64Type>(count))
        }
        DataType::Date32 | DataType::Date64 => {
            let days = cast(&cast(array, &DataType::Date32)?, &DataType::Int32)?;
            let days = cast(&days, &DataType::Int64)?;
            Arc::new(days.as_primitive::<Int64Type>().unary::<_, Int64Type>(|day| day.saturating_mul(DAY)))
        }
        DataType::Timestamp(unit, _) => {
            let factor = match unit {
                datafusion::arrow::datatypes::TimeUnit::Second => 1_000_000_000,
                datafusion::arrow::datatypes::TimeUnit::Millisecond => 1_000_000,
                datafusion::arrow::datatypes::TimeUnit::Microsecond => 1_000,
                datafusion::arrow::datatypes::TimeUnit::Nanosecond => 1,
            };
            let values = cast(array, &DataType::Int64)?;
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| value.saturating_mul(factor)))
        }
        _ => cast(array, &DataType::Int64)?,
    })
}

/// Refuses a function that would compare for longer than a query may take.
fn check_comparisons(name: &str, args: &ScalarFunctionArgs) -> Result<()> {
    let arguments = args.args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
    let rows = if arguments.iter().all(|argument| argument.is_scalar) { 1 } else { args.number_rows };
    let parts = |of: &Argument, row| of.elements().unwrap_or_else(|| of.bytes(row));
    let count = |row| arguments.iter().map(|argument| parts(argument, row)).fold(1, u128::saturating_mul);
    let count = (0..rows).map(count).fold(0, u128::saturating_add);
    if count > COMPARISONS {
        return exec_err!("{name} would compare {count} times; at most {COMPARISONS} are expected");
    }
    Ok(())
}

/// How many bytes a function's result will have, at most.
fn predicted(growth: Growth, args: &ScalarFunctionArgs) -> Result<u128> {
    let arguments = args.args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
    let is_scalar = arguments.iter().all(|argument| argument.is_scalar);
    let rows = if is_scalar { 1 } else { args.number_rows };
    let sum = |bytes: &dyn Fn(usize) -> u128| (0..rows).map(bytes).fold(0, u128::saturating_add);
    let count = |number: i128| u128::try_from(number).unwrap_or(0);
    let mut arguments = arguments.into_iter();
    Ok(match (growth, arguments.next(), arguments.next(), arguments.next()) {
        (Growth::Sum, first, second, third) => {
            let all: Vec<_> = [first, second, third].into_iter().flatten().chain(arguments).collect();
            sum(&|row| all.iter().map(|argument| argument.bytes(row)).sum())
        }
        (Growth::Listed, Some(list), Some(between), other) => {
            /// The longest text of a number or a time.
            const LONGEST: u128 = 40;
            sum(&|row| {
                let other = other.as_ref().map_or(0, |other| other.bytes(row));
                let each = between.bytes(row).saturating_add(other).saturating_add(LONGEST);
                list.bytes(row).saturating_add(list.elements().unwrap_or(1).saturating_mul(each))
            })
        }
        (Growth::Range, Some(first), second, third) => {
            third.iter().try_for_each(|third| check_steps(&third.array))?;
            let first = first.counted()?;
            let second = second.map(Argument::counted).transpose()?;
            let third = third.map(Argument::counted).transpose()?;
            sum(&|row| {
                let (start, stop) = match &second {
                    Some(second) => (first.number(row), second.number(row)),
                    None => (0, first.number(row)),
                };
                let step = third.as_ref().map_or(1, |third| third.number(row)).unsigned_abs().max(1);
                (start.abs_diff(stop) / step).saturating_mul(8)
            })
        }
        (Growth::Repeat | Growth::Fill, Some(value), Some(times), _) => {
            let times = times.counted()?;
            sum(&|row| value.bytes(row).max(1).saturating_mul(count(times.number(row))))
        }
        (Growth::Pad, Some(_), Some(length), _) => {
            let length = length.counted()?;
            sum(&|row| count(length.number(row)).saturating_mul(4))
        }
        (Growth::Resize, Some(_), Some(length), value) => {
            let length = length.counted()?;
            let width = |row| value.as_ref().map_or(8, |value| value.bytes(row)).max(8);
            sum(&|row| count(length.number(row)).saturating_mul(width(row)))
        }
        (Growth::Replace, Some(text), Some(from), Some(to)) => sum(&|row| {
            let places = text.bytes(row) / from.bytes(row).max(1) + 1;
            text.bytes(row) + places.saturating_mul(to.bytes(row))
        }),
        (Growth::Pattern, Some(text), _, Some(to)) => {
            sum(&|row| text.bytes(row) + (text.bytes(row) + 1).saturating_mul(to.bytes(row)))
        }
        _ => 0,
    })
}

// ---- || ----

/// Makes `||` of texts a function that is bounded too. A chain is one function of all its parts: DataFusion names each
/// function after its arguments, which of nested ones takes a time that grows with the cube of their number.
#[derive(Debug)]
struct Joining(Arc<ScalarUDF>);

impl ExprPlanner for Joining {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(expr));
        }
        let mut parts = match expr.left {
            Expr::ScalarFunction(chain) if chain.func == self.0 => chain.args,
            first => vec![first],
        };
        parts.push(expr.right);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(self.0.clone(), parts))))
    }
}

/// Texts as one; null if one of them is.
#[derive(Debug)]
struct Joined {
    signature: Signature,
    most: Arc<Most>,
}

impl PartialEq for Joined {
    fn eq(&self, _: &Joined) -> bool {
        true
    }
}

impl Eq for Joined {}

impl Hash for Joined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The type of all texts of a chain.
fn common(arg_types: &[DataType]) -> Result<DataType> {
    let mut types = arg_types.iter();
    let first = types.next().ok_or_else(|| DataFusionError::Plan("|| has two sides".into()))?;
    types.try_fold(first.clone(), |left, right| {
        BinaryTypeCoercer::new(&left, &Operator::StringConcat, right).get_result_type()
    })
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let shown = args.iter().map(|side| side.schema_name().to_string()).collect::<Vec<_>>();
        Ok(shown.join(" || "))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![common(arg_types)?; arg_types.len()])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        common(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let _reserved = self.most.reserve(predicted(Growth::Sum, &args)?, "||")?;
        let mut parts = args.args.into_iter();
        let first = parts.next().ok_or_else(|| DataFusionError::Plan("|| has two sides".into()))?;
        parts.try_fold(first, |left, right| two(left, right, args.number_rows))
    }
}

/// Two texts as one.
fn two(left: ColumnarValue, right: ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let sides = [left, right];
    let is_scalar = sides.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
    let arrays = ColumnarValue::values_to_arrays(&sides)?;
    let field = |(number, array): (usize, &ArrayRef)| Field::new(number.to_string(), array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(if is_scalar { 1 } else { rows }));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
    let side = |number: usize| Arc::new(Column::new(&number.to_string(), number)) as Arc<dyn PhysicalExpr>;
    let found = BinaryExpr::new(side(0), Operator::StringConcat, side(1)).evaluate(&batch)?;
    match found {
        ColumnarValue::Array(array) if is_scalar => {
            Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?))
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn context() -> SessionContext {
        let mut builder = SessionStateBuilder::new().with_default_features();
        let most = Arc::new(Most::default());
        most.set(1 << 30);
        bound(&mut builder, &most);
        SessionContext::new_with_state(builder.build())
    }

    #[tokio::test]
    async fn chains_of_texts_are_those_of_datafusion() {
        let rows = "(values ('a', 1, null), ('b', 2, 'z'), (null, 3, '')) t (word, n, other)";
        let large = "arrow_cast(word, 'LargeUtf8') || other || arrow_cast(word, 'Utf8View')";
        for shown in
            ["word || 'x' || other", "word || n || 'x' || word", "'a' || ('b' || word) || n", large, "'a' || 'b'"]
        {
            let sql = format!("select {shown} as joined from {rows}");
            let [ours, own] = [context(), SessionContext::new()].map(async |context| {
                let answer = context.sql(&sql).await.unwrap().collect().await.unwrap();
                pretty_format_batches(&answer).unwrap().to_string()
            });
            assert_eq!(ours.await, own.await, "{sql}");
        }
    }

    #[tokio::test]
    async fn steps_that_come_back_are_refused() {
        let list = |of: &str| format!("select cardinality(generate_series({of}))");
        for of in [
            "timestamp '2020-04-01', timestamp '2021-01-01', interval '1 month -30 days'",
            "date '2021-01-01', date '2020-01-01', interval '1 month -31 days'",
        ] {
            let answer = context().sql(&list(of)).await;
            let error = match answer {
                Ok(rows) => rows.collect().await.unwrap_err(),
                Err(e) => e,
            };
            assert!(error.to_string().contains("one direction"), "{of}: {error}");
        }
        let whole = list("date '2020-01-01', date '2021-01-01', interval '1 month 2 days'");
        assert_eq!(context().sql(&whole).await.unwrap().collect().await.unwrap()[0].num_rows(), 1);
    }

    #[tokio::test]
    async fn comparisons_that_would_not_end_are_refused() {
        let answer = async |of: &str| {
            let rows = context().sql(&format!("select {of} as found")).await?;
            rows.collect().await
        };
        for of in [
            "levenshtein(repeat('a', 100000), repeat('b', 100000))",
            "array_has_all(range(0, 100000), range(100000, 200000))",
            "array_has_any(range(0, 100000), range(100000, 200000))",
        ] {
            let error = answer(of).await.unwrap_err().to_string();
            assert!(error.contains("would compare 10000000000 times"), "{of}: {error}");
        }
        for of in ["levenshtein('kitten', 'sitting') = 3", "array_has_all([1, 2], [2])", "array_has_any(['a'], ['a'])"]
        {
            let found = answer(of).await.unwrap();
            assert!(found[0].column(0).as_boolean().value(0), "{of}");
        }
    }

    #[test]
    fn results_made_at_the_same_time_share_the_memory() {
        let most = Most::default();
        most.set(1 << 40);
        let half = u128::from(most.bytes.load(Ordering::Relaxed)) / 5 * 3;
        let first = most.reserve(half, "repeat").unwrap();
        let error = most.reserve(half, "repeat").unwrap_err();
        assert!(error.to_string().contains("repeat would make"), "{error}");
        drop(first);
        drop(most.reserve(half, "repeat").unwrap());
        assert_eq!(most.reserved.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_chain_of_texts_is_one_function() {
        let state = context().state();
        let sql = format!("select word{} from (values ('a')) t (word)", " || word".repeat(50));
        let plan = state.create_logical_plan(&sql).await.unwrap();
        let LogicalPlan::Projection(projection) = plan else { panic!("no projection") };
        let mut functions = Vec::new();
        let found = projection.expr[0].apply(|expr| {
            if let Expr::ScalarFunction(function) = expr {
                functions.push(function.args.len());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.unwrap();
        assert_eq!(functions, [51]);
    }
}
