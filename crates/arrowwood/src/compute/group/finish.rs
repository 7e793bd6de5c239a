//! Computes what an [`Aggregation`] describes by a [`GroupPlan`].

use super::aggregate::Aggregation;
use super::keys::{check_keys, with_plain_booleans};
use super::plan::GroupPlan;
use crate::compute::gather::gather_rows;
use crate::compute::scan::Frame;
use crate::compute::view::prune_inner;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// # Distinct rows
impl Dataset {
    /// Returns the first row of each group of rows with the same values in the columns `names`.
    ///
    /// Without `names`, all columns are compared. Rows keep their order.
    ///
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for columns of nested types.
    pub fn unique<N: AsRef<str>>(&self, names: &[N]) -> Result<Dataset> {
        let mut keys = names.iter().map(|name| self.index_of(name.as_ref())).collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            keys = (0..self.num_columns()).collect();
        }
        let schema = self.schema();
        check_keys(&keys, self)?;
        if keys.is_empty() {
            return self.head(0);
        }

        let names: Vec<String> = keys.iter().map(|&key| schema.field(key).name().clone()).collect();
        let plain = with_plain_booleans(self, &names)?;
        let plan = GroupPlan::empty(plain.as_ref().unwrap_or(self), keys, None);
        self.with_change_check(ChangeCheck::Now, || {
            let (_, groups) = plan.group_rows(plain.as_ref().unwrap_or(self), None)?;
            gather_rows(self, &Frame::try_new(self)?, groups.firsts.len(), |group| groups.firsts[group])
        })
    }
}

impl Aggregation<'_> {
    /// Does [`finish_all`](Aggregation::finish_all) for keys of which equal ones have equal bytes.
    pub(super) fn finish_plain(&self) -> Result<Dataset> {
        let mut plan = GroupPlan::try_new(self)?;
        self.dataset.with_change_check(ChangeCheck::Now, || {
            let bounded = match &self.predicate {
                Some(predicate) if self.rows.is_none() => &prune_inner(self.dataset, predicate)?,
                _ => self.dataset,
            };
            let uncounted = plan.count_in_sets(bounded, self.watch)?;
            self.count_distinct(&mut plan, uncounted)?;
            if let Some(result) = plan.run(bounded, self.watch)? {
                return Ok(result);
            }

            // There are many more groups than in the first rows: count all distinct values by groups of their own.
            let mut plan = GroupPlan::try_new(self)?;
            let uncounted = plan.distinct_outputs();
            self.count_distinct(&mut plan, uncounted)?;
            plan.run(bounded, self.watch)?.ok_or_else(|| Error::internal("sets of integers that nobody asked for"))
        })
    }

    /// Counts the distinct values of the outputs with the numbers `outputs`, by groups of their own.
    fn count_distinct(&self, plan: &mut GroupPlan, outputs: Vec<usize>) -> Result<()> {
        for number in outputs {
            if let Some((expression, _)) = &self.outputs[number].input
                && let Some(column) = expression.name()
            {
                plan.distinct.push((number, self.distinct(column)?));
            }
        }
        Ok(())
    }
}
