//! Copies the states of groups without references to a dataset, to continue with them when there are more rows.

use super::group_state::{ExtremeKind, GroupState, RowText, StateKind, text_extremes};
use crate::compute::group::keys::{KeyPart, ordered_cell};
use crate::compute::scan::Frame;
use crate::error::{Error, Result};

/// A state that refers to no dataset. Texts are replaced by the numbers of their rows.
#[derive(Debug)]
pub(in crate::compute::group) enum StateSnapshot {
    Texts(Vec<Option<u64>>),
    Other(GroupState<'static>),
}

impl GroupState<'_> {
    /// Returns a copy that may outlive the dataset.
    pub(in crate::compute::group) fn snapshot(&self) -> StateSnapshot {
        match self {
            GroupState::Text(_) => StateSnapshot::Texts(self.rows()),
            other => StateSnapshot::Other(other.to_detached()),
        }
    }

    /// Returns a copy without references; an empty one for texts.
    fn to_detached<'a>(&self) -> GroupState<'a> {
        match self {
            GroupState::Text(_) => GroupState::Text(text_extremes(ExtremeKind::Min, 0)),
            GroupState::Counts(states) => GroupState::Counts(states.clone()),
            GroupState::Floats(states) => GroupState::Floats(states.clone()),
            GroupState::Integers(states) => GroupState::Integers(states.clone()),
            GroupState::Decimals(states) => GroupState::Decimals(states.clone()),
            GroupState::Moments(states) => GroupState::Moments(states.clone()),
            GroupState::IntegerMoments(states) => GroupState::IntegerMoments(states.clone()),
            GroupState::DecimalMoments(states) => GroupState::DecimalMoments(states.clone()),
            GroupState::Values(states) => GroupState::Values(states.clone()),
            GroupState::Distinct(sets) => GroupState::Distinct(sets.clone()),
            GroupState::Integer(extreme) => GroupState::Integer(extreme.clone()),
            GroupState::Float(extreme) => GroupState::Float(extreme.clone()),
            GroupState::Row(extreme) => GroupState::Row(extreme.clone()),
        }
    }
}

impl StateSnapshot {
    /// Returns the state, of kind `kind`, to continue with in `frame`, which has the same rows and may have more.
    pub(in crate::compute::group) fn restore<'a>(&self, kind: StateKind, frame: &Frame<'a>) -> Result<GroupState<'a>> {
        match (self, kind) {
            (StateSnapshot::Texts(rows), StateKind::Extreme { end, column, .. }) => {
                let mut extreme = text_extremes(end, rows.len());
                for (group, row) in rows.iter().enumerate() {
                    let Some(row) = *row else { continue };
                    let Some((part, part_row)) = frame.locate(row, 0) else { continue };
                    let array = frame.checked(part, column)?;
                    if let KeyPart::Bytes(bytes) = ordered_cell(frame, column, array, part_row)? {
                        extreme.offer(group, RowText { bytes, row });
                    }
                }
                Ok(GroupState::Text(extreme))
            }
            (StateSnapshot::Texts(_), kind) => Err(Error::internal(format!("texts were kept for {kind:?}"))),
            (StateSnapshot::Other(state), _) => Ok(state.to_detached()),
        }
    }
}
