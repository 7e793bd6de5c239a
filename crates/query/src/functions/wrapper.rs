//! Wraps functions whose results can be far larger than their arguments, such as `repeat`, or that take long: a call
//! fails if its result would not fit into memory, or if it would not end in time.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::functions::result_bounds::{Check, check_comparisons, find_check, max_result_bytes};
use crate::functions::result_budget::ResultBudget;
use crate::functions::value_bytes::check_width;

/// Returns the bounded variant of a function; `None` for functions that need none, or are bounded already.
pub(super) fn to_bounded_function(function: &ScalarUDF, budget: &Arc<ResultBudget>) -> Option<Arc<ScalarUDF>> {
    let check = missing_check(function)?;
    let bounded = BoundedFunction { inner: function.inner().clone(), check, budget: budget.clone() };
    Some(Arc::new(ScalarUDF::new_from_impl(bounded)))
}

/// Returns the check of a function that has to be bounded and is not; `None` for others.
fn missing_check(function: &ScalarUDF) -> Option<Check> {
    find_check(function.name()).filter(|_| !function.inner().is::<BoundedFunction>())
}

/// Replaces the functions in an expression with their bounded variants, and checks the width of types in it.
pub(super) fn replace_functions(expr: Expr, budget: &Arc<ResultBudget>) -> Result<Expr> {
    let transformed = expr.transform_down(|expr| match expr {
        Expr::ScalarFunction(mut call) => match to_bounded_function(&call.func, budget) {
            Some(func) => {
                call.func = func;
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        Expr::Cast(Cast { ref field, .. }) | Expr::TryCast(TryCast { ref field, .. }) => {
            check_width(field.data_type())?;
            Ok(Transformed::no(expr))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(transformed.data)
}

/// Returns an error for a call of a function that has to be bounded and is not.
pub(crate) fn check_bounded(expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) if missing_check(call.fun()).is_some() => {
            internal_err!("{} is a function whose result is not bounded", call.fun().name())
        }
        _ => Ok(()),
    }
}

/// A function that checks the size of its result, or the time that it takes, before it is called.
#[derive(Debug)]
struct BoundedFunction {
    inner: Arc<dyn ScalarUDFImpl>,
    check: Check,
    budget: Arc<ResultBudget>,
}

impl PartialEq for BoundedFunction {
    fn eq(&self, other: &BoundedFunction) -> bool {
        self.check == other.check && self.inner.name() == other.inner.name()
    }
}

impl Eq for BoundedFunction {}

impl Hash for BoundedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ScalarUDFImpl for BoundedFunction {
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
        let field = self.inner.return_field_from_args(args)?;
        check_width(field.data_type())?;
        Ok(field)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // Simplifying can't make results larger, but it may insert a call of DataFusion's own function, as `concat`
        // does when it joins constants.
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(replace_functions(expr, &self.budget)?)
            }
            original => original,
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Released when the result is made, and counts as memory of the process.
        let _reservation;
        match self.check {
            Check::ResultBytes(growth) => {
                _reservation = self.budget.reserve(max_result_bytes(growth, &args)?, self.name())?;
            }
            Check::Comparisons => check_comparisons(self.name(), &args)?,
            Check::TypeWidth => {}
        }
        self.inner.invoke_with_args(args)
    }
}
