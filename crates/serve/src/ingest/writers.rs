//! Finds the writer of a table, among those of all tables: [`Writers`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use arrowwood::WriterOptions;
use arrowwood::mapping::MutexExt;

use super::group_commit::{TableWriter, WriterPool};
use super::producers::ProducerState;
use super::queue::Queue;
use crate::catalog::Table;

/// The writers of all tables that get rows, or have got some.
///
/// A table's queue is kept as long as the table is, by its number: the states of producers in it outlast its thread.
pub(crate) struct Writers {
    pool: Arc<WriterPool>,
    /// Locked for moments. The locks of a queue may be taken while it is locked, and not the other way round.
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_table: HashMap<u64, TableQueue>,
    /// Set once the server stops: queues that are added are closed.
    is_closed: bool,
}

struct TableQueue {
    table: Weak<Table>,
    queue: Arc<Queue>,
}

impl Writers {
    pub fn new(pool: WriterPool) -> Writers {
        Writers { pool: Arc::new(pool), queues: Mutex::default() }
    }

    /// Returns the writer of a table, which is opened when it gets rows.
    pub fn writer(&self, table: &Arc<Table>) -> TableWriter {
        let mut queues = self.queues.lock_ignoring_poison();
        let is_closed = queues.is_closed;
        let known = queues.by_table.entry(table.number).or_insert_with(|| {
            let queue = Arc::new(Queue::default());
            queue.state.lock_ignoring_poison().is_closed = is_closed;
            TableQueue { table: Arc::downgrade(table), queue }
        });
        debug_assert!(known.table.as_ptr() == Arc::as_ptr(table), "two tables have number {}", table.number);
        TableWriter { table: table.clone(), queue: known.queue.clone(), pool: self.pool.clone() }
    }

    fn queue(&self, table: &Table) -> Option<Arc<Queue>> {
        let queues = self.queues.lock_ignoring_poison();
        queues.by_table.get(&table.number).map(|known| known.queue.clone())
    }

    /// Returns the state of a producer, if this server has committed rows of it, or has loaded it.
    pub fn producer(&self, table: &Table, name: &str) -> Option<ProducerState> {
        self.queue(table)?.producers.get(name)
    }

    /// Returns true if a thread may have the table open for writing.
    pub fn is_written(&self, table: &Table) -> bool {
        self.queue(table).is_some_and(|queue| queue.has_thread())
    }

    /// Returns how tables are opened, which says on which disk they are.
    pub fn options(&self) -> WriterOptions {
        self.pool.options.clone()
    }

    /// Returns the lock that a thread of the server has while it commits rows itself.
    pub fn inline_commit(&self) -> Arc<Mutex<()>> {
        self.pool.inline_commit.clone()
    }

    /// Removes the queues of tables that are no more.
    pub fn forget_dropped(&self) {
        self.queues.lock_ignoring_poison().by_table.retain(|_, known| known.table.strong_count() > 0);
    }

    /// Refuses further rows, and waits until accepted ones are committed and on the disk. Blocks.
    pub fn close(&self) {
        let queues: Vec<_> = {
            let mut queues = self.queues.lock_ignoring_poison();
            queues.is_closed = true;
            queues.by_table.values().map(|known| known.queue.clone()).collect()
        };
        for queue in queues {
            queue.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrowwood::parse_schema;

    use super::*;
    use crate::catalog::Catalog;
    use crate::ops::Readiness;

    fn writers() -> Writers {
        Writers::new(WriterPool {
            metrics: Arc::default(),
            idle_timeout: Duration::from_secs(10),
            max_open: 1,
            open: Arc::default(),
            inline_commit: Arc::default(),
            options: WriterOptions::default(),
            readiness: Readiness::new(None),
        })
    }

    #[test]
    fn queue_is_kept_as_long_as_its_table() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        for name in ["a", "b"] {
            let schema = Arc::new(parse_schema("n: int64").unwrap());
            catalog.create(name, schema, &WriterOptions::default()).unwrap();
        }
        let writers = writers();
        let [a, b] = ["a", "b"].map(|name| writers.writer(&catalog.get(name).unwrap()).queue);
        assert!(!Arc::ptr_eq(&a, &b));
        writers.forget_dropped();
        assert!(Arc::ptr_eq(&a, &writers.writer(&catalog.get("a").unwrap()).queue));
        drop(catalog);
        writers.forget_dropped();
        assert!(writers.queues.lock_ignoring_poison().by_table.is_empty());
    }

    #[test]
    fn stopped_server_takes_no_rows_for_any_table() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int64").unwrap());
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        let writers = writers();
        writers.close();
        let queue = writers.writer(&catalog.get("t").unwrap()).queue;
        assert!(queue.state.lock_ignoring_poison().is_closed);
    }
}
