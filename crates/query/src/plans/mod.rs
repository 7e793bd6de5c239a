//! Changes and checks of plans, so that a query can be cancelled and stays within its memory.
//!
//! In reading order: `projection_rule` corrects DataFusion's optimizer, `serving` makes plans that end when they are
//! cancelled, `sliced_sort` keeps sorts within their memory, and `constants` checks the constants of a plan. Uses
//! `functions`.

pub(crate) mod constants;
pub(crate) mod projection_rule;
mod serving;
mod sliced_sort;

pub(crate) use serving::{make_cancellable, only_passes_rows, prepare_for_serving, retains_rows};
pub(crate) use sliced_sort::{max_batch_rows, slice_sort_inputs};
