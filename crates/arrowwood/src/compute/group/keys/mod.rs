//! Numbers keys and groups.
//!
//! In reading order: `interner` numbers keys, and `groups` numbers the groups of a block's rows. Uses no other room of
//! `group`.

mod groups;
mod interner;

pub(super) use groups::{
    GroupScratch, Groups, check_claim, check_keys, group, ordered_cell, with_plain_booleans, word_of_2, word_of_4,
};
pub(in crate::compute) use groups::{is_key_type, key_part};
pub(in crate::compute) use interner::KeyPart;
pub(super) use interner::{Interner, LONG, pack_short_text, pack_text};
