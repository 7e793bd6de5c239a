//! What is worth doing on a mapped column itself: reductions in parallel, at the speed at which memory can be read.
//!
//! `parallel` shares work between threads, `kernels` are the loops over blocks, `reduce` puts them together for every
//! type, over batches and nulls. A result never depends on the number of threads.

mod kernels;
pub(crate) mod parallel;
mod reduce;
