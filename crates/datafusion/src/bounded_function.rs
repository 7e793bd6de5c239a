//! Functions whose results can be far larger than what they are of, such as `repeat`: refused where the process has not
//! the memory.

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

use crate::result_bounds::{FUNCTIONS, Growth, check_comparisons, check_width, predicted};
use crate::result_budget::ResultBudget;

/// The bounded function in the place of DataFusion's; `None` for functions that are none of those, or bounded already.
pub(crate) fn bounded(function: &ScalarUDF, budget: &Arc<ResultBudget>) -> Option<Arc<ScalarUDF>> {
    let growth = growth_of(function)?;
    let bounded = BoundedFunction { inner: function.inner().clone(), growth, budget: budget.clone() };
    Some(Arc::new(ScalarUDF::new_from_impl(bounded)))
}

/// How the result of a function grows that is not bounded.
fn growth_of(function: &ScalarUDF) -> Option<Growth> {
    let (_, growth) = FUNCTIONS.iter().find(|(name, _)| *name == function.name())?;
    (!function.inner().is::<BoundedFunction>()).then_some(*growth)
}

/// The same with bounded functions in the place of DataFusion's, and with types of a width that is not too large.
pub(crate) fn bounded_within(expr: Expr, budget: &Arc<ResultBudget>) -> Result<Expr> {
    let transformed = expr.transform_down(|expr| match expr {
        Expr::ScalarFunction(mut call) => match bounded(&call.func, budget) {
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

/// Refuses an expression with a function that is to be bounded, and is not.
pub(crate) fn check_bounded(expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
    match expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| growth_of(call.fun()).is_some()) {
        Some(call) => internal_err!("{} is a function whose result is not bounded", call.fun().name()),
        None => Ok(()),
    }
}

/// A function whose result may be large.
#[derive(Debug)]
struct BoundedFunction {
    inner: Arc<dyn ScalarUDFImpl>,
    growth: Growth,
    budget: Arc<ResultBudget>,
}

impl PartialEq for BoundedFunction {
    fn eq(&self, other: &BoundedFunction) -> bool {
        self.growth == other.growth && self.inner.name() == other.inner.name()
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
        // A function that concatenates constants while it plans makes no more than there was, but calls DataFusion's
        // own function then.
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => ExprSimplifyResult::Simplified(bounded_within(expr, &self.budget)?),
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
        if self.growth == Growth::Compared {
            check_comparisons(self.name(), &args)?;
        }
        let _reserved = self.budget.reserve(predicted(self.growth, &args)?, self.name())?;
        self.inner.invoke_with_args(args)
    }
}
