//! The live segment as its writer sees it: its rows, its commits, and what of them is on the disk.
//!
//! In reading order: `proof_base` (the commit since which others are proven), `file` (makes commits durable), `layout`
//! (the front and header of a new file), `resume` (recovery of a segment to be continued), `region_space` (allocation),
//! `commit_writer` (makes commits visible), `segment` (all of these: a segment for its writer), `resting` (sealed
//! segments whose footers may be in use), `durability` (makes commits across segments durable). Uses no other module of
//! the writer.

mod commit_writer;
mod durability;
mod file;
mod layout;
mod proof_base;
mod region_space;
mod resting;
mod resume;
mod segment;

pub use durability::Durability;
pub(super) use durability::{SegmentSyncer, cannot_go_on, make_durable, removed};
pub(super) use file::{LiveFile, SyncTarget, stamp};
pub(super) use layout::SegmentShape;
pub(in crate::table) use layout::encode_front;
pub(in crate::table) use segment::LiveSegment;
pub(super) use segment::{OPEN, PROVISIONAL, SEALED};
