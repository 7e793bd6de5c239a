//! [`ConcatOp`]: the operator `||` of texts as a function whose result is bounded.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};

use crate::functions::result_bounds::{Growth, max_result_bytes};
use crate::functions::result_budget::ResultBudget;

/// The name of the function.
pub(crate) const CONCAT_NAME: &str = "||";

/// Concatenates texts. The result is null if one of them is.
#[derive(Debug)]
pub(super) struct ConcatOp {
    signature: Signature,
    budget: Arc<ResultBudget>,
}

impl ConcatOp {
    pub fn new(budget: &Arc<ResultBudget>) -> ConcatOp {
        ConcatOp { signature: Signature::user_defined(Volatility::Immutable), budget: budget.clone() }
    }
}

impl PartialEq for ConcatOp {
    fn eq(&self, _: &ConcatOp) -> bool {
        true
    }
}

impl Eq for ConcatOp {}

impl Hash for ConcatOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

fn no_operands() -> DataFusionError {
    DataFusionError::Plan("|| has two sides".into())
}

/// Returns the type that all operands of a chain are cast to.
fn common_type(arg_types: &[DataType]) -> Result<DataType> {
    let mut types = arg_types.iter();
    let first = types.next().ok_or_else(no_operands)?;
    types.try_fold(first.clone(), |left, right| {
        BinaryTypeCoercer::new(&left, &Operator::StringConcat, right).get_result_type()
    })
}

impl ScalarUDFImpl for ConcatOp {
    fn name(&self) -> &str {
        CONCAT_NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let operands: Vec<_> = args.iter().map(|operand| operand.schema_name().to_string()).collect();
        Ok(operands.join(" || "))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![common_type(arg_types)?; arg_types.len()])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        common_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let _reservation = self.budget.reserve(max_result_bytes(Growth::Concat, &args)?, CONCAT_NAME)?;
        let mut operands = args.args.into_iter();
        let first = operands.next().ok_or_else(no_operands)?;
        operands.try_fold(first, |left, right| concat_pair(left, right, args.number_rows))
    }
}

/// Concatenates two operands as DataFusion's own operator does.
fn concat_pair(left: ColumnarValue, right: ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let sides = [left, right];
    let is_scalar = sides.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
    let arrays = ColumnarValue::values_to_arrays(&sides)?;
    assert_eq!(arrays.len(), 2, "two sides are two arrays");
    let schema = Arc::new(Schema::new(vec![
        Field::new("0", arrays[0].data_type().clone(), true),
        Field::new("1", arrays[1].data_type().clone(), true),
    ]));
    let options = RecordBatchOptions::new().with_row_count(Some(if is_scalar { 1 } else { rows }));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
    let left = Arc::new(Column::new("0", 0));
    let right = Arc::new(Column::new("1", 1));
    match BinaryExpr::new(left, Operator::StringConcat, right).evaluate(&batch)? {
        ColumnarValue::Array(array) if is_scalar => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)),
        other => Ok(other),
    }
}
