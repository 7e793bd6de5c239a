//! The states of groups without references, to go on with when there are more rows.

use super::groups::ordered_cell;
use super::interner::KeyPart;
use super::state::{Extreme, ExtremeKind, GroupState, RowText, StateKind, texts};
use crate::compute::frame::Frame;
use crate::error::{Error, Result};

/// A state that refers to no dataset: of texts only their rows are kept.
#[derive(Debug)]
pub(super) enum StateSnapshot {
    Texts(Vec<Option<u64>>),
    Other(GroupState<'static>),
}

impl GroupState<'_> {
    /// A copy that may be kept beyond the dataset.
    pub(super) fn kept(&self) -> StateSnapshot {
        let rows = |found: &Extreme<RowText<'_>>| found.best.iter().map(|best| best.map(|found| found.row)).collect();
        match (self, self.copied()) {
            (GroupState::Text(found), _) => StateSnapshot::Texts(rows(found)),
            (_, copied) => StateSnapshot::Other(copied),
        }
    }

    /// A copy without a reference, of texts none of them.
    fn copied<'a>(&self) -> GroupState<'a> {
        match self {
            GroupState::Text(_) => GroupState::Text(texts(ExtremeKind::Min, 0)),
            GroupState::Counts(states) => GroupState::Counts(states.clone()),
            GroupState::Floats(states) => GroupState::Floats(states.clone()),
            GroupState::Integers(states) => GroupState::Integers(states.clone()),
            GroupState::Decimals(states) => GroupState::Decimals(states.clone()),
            GroupState::Moments(states) => GroupState::Moments(states.clone()),
            GroupState::IntegerMoments(states) => GroupState::IntegerMoments(states.clone()),
            GroupState::DecimalMoments(states) => GroupState::DecimalMoments(states.clone()),
            GroupState::Values(states) => GroupState::Values(states.clone()),
            GroupState::Distinct(sets) => GroupState::Distinct(sets.clone()),
            GroupState::Integer(found) => GroupState::Integer(found.clone()),
            GroupState::Float(found) => GroupState::Float(found.clone()),
            GroupState::Row(found) => GroupState::Row(found.clone()),
        }
    }
}

impl StateSnapshot {
    /// The state, of kind `kind`, to go on with in `frame`, which has the same rows and maybe more.
    pub(super) fn state<'a>(&self, kind: StateKind, frame: &Frame<'a>) -> Result<GroupState<'a>> {
        match (self, kind) {
            (StateSnapshot::Texts(kept), StateKind::Extreme { end, column, .. }) => {
                let mut found = texts(end, kept.len());
                for (group, row) in kept.iter().enumerate() {
                    let Some((row, (part, inside))) = row.and_then(|row| Some((row, frame.locate(row, 0)?))) else {
                        continue;
                    };
                    if let KeyPart::Bytes(bytes) = ordered_cell(frame, column, frame.checked(part, column)?, inside)? {
                        found.offer(group, RowText { bytes, row });
                    }
                }
                Ok(GroupState::Text(found))
            }
            (StateSnapshot::Texts(_), kind) => Err(Error::internal(format!("texts were kept for {kind:?}"))),
            (StateSnapshot::Other(state), _) => Ok(state.copied()),
        }
    }
}
