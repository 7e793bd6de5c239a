//! Groups rows in partitions by the hashes of their keys, where there are very many groups.
//!
//! In reading order: `text_views` makes views of the texts of partitions, `chunk_order` orders the rows of a chunk by
//! partition, `key_hash` hashes keys, and `wave` groups the rows of many chunks. Uses `keys` and `state`.

mod chunk_order;
mod key_hash;
mod text_views;
mod wave;

pub(super) use chunk_order::{CHUNK, PARTITIONS};
pub(super) use wave::{InputColumns, PartitionJob, Wave};
