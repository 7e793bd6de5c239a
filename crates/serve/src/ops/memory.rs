//! Divides memory between requests.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::{Problem, Result};

/// The unit in bytes in which memory is shared.
pub(crate) const UNIT: usize = 4 << 10;

/// Returns the size of a share of memory in bytes.
pub(crate) fn share_bytes(share: &OwnedSemaphorePermit) -> usize {
    share.num_permits() * UNIT
}

/// Memory shared by requests, either for uncommitted rows or for queries.
///
/// It is only counted here: a request takes a share, which is a permit for whole [`UNIT`]s, before it allocates, and
/// the share is returned when it is dropped. What a request allocates beyond its share is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Semaphore>);

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory(Arc::new(Semaphore::new(bytes.div_ceil(UNIT).clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Takes a share of `bytes` for rows.
    ///
    /// # Errors
    /// 503 if they are not free.
    pub fn share(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        self.try_share(bytes)
            .ok_or_else(|| Problem::unavailable("the memory for rows that are not committed yet is taken; try again"))
    }

    /// Takes a share of `bytes`, if they are free.
    pub fn try_share(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_many_owned(Memory::units(bytes)).ok()
    }

    /// Takes a share of `bytes`, once they are free.
    pub async fn wait(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let share = self.0.clone().acquire_many_owned(Memory::units(bytes)).await;
        share.map_err(|_| Problem::unavailable("the server is stopping"))
    }

    /// Returns the number of bytes in no share at this time.
    pub fn free(&self) -> usize {
        self.0.available_permits().saturating_mul(UNIT)
    }

    fn units(bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
    }
}
