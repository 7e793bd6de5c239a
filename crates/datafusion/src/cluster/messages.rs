//! The messages that servers and their callers exchange, apart from the messages of the engine.

use datafusion_proto::protobuf;
use datafusion_proto::protobuf::partitioning::PartitionMethod;
use prost::Message;

/// The most partitions of a step of a plan.
pub(crate) const STEP_PARTITIONS: usize = 1 << 14;

/// The first request of a query: fixes the rows of its tables.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpenRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    /// The number of the query, at random.
    #[prost(bytes = "vec", tag = "2")]
    pub query: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    pub tables: Vec<String>,
}

/// The tables that there are of those that were asked for.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpenResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    /// The process that answers.
    #[prost(bytes = "vec", tag = "2")]
    pub process: Vec<u8>,
    /// The directory that it serves: the same for two processes that serve the same.
    #[prost(bytes = "vec", tag = "3")]
    pub directory: Vec<u8>,
    #[prost(uint32, tag = "4")]
    pub cores: u32,
    #[prost(message, repeated, tag = "5")]
    pub tables: Vec<OpenedTable>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpenedTable {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub schema: Option<protobuf::Schema>,
    #[prost(uint64, tag = "3")]
    pub rows: u64,
}

/// The rows that a task reads of one server's table.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub query: Vec<u8>,
    /// The process that fixed the rows; empty for a part without rows.
    #[prost(bytes = "vec", tag = "2")]
    pub process: Vec<u8>,
    #[prost(string, tag = "3")]
    pub table: String,
    /// The columns, in order.
    #[prost(message, optional, tag = "4")]
    pub schema: Option<protobuf::Schema>,
    #[prost(uint32, tag = "5")]
    pub partitions: u32,
    #[prost(message, repeated, tag = "6")]
    pub filters: Vec<FilterMessage>,
    #[prost(uint64, optional, tag = "7")]
    pub limit: Option<u64>,
}

/// A condition that a server applies.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilterMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub expr: Vec<u8>,
    /// True if it is applied nowhere else.
    #[prost(bool, tag = "2")]
    pub is_exact: bool,
}

/// The engine's request that has a task executed, as far as it says how large that is.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecuteMessage {
    #[prost(uint64, tag = "2")]
    pub first: u64,
    #[prost(uint64, tag = "3")]
    pub end: u64,
    #[prost(message, optional, tag = "7")]
    pub broadcast: Option<BroadcastMessage>,
    #[prost(message, optional, tag = "8")]
    pub repartition: Option<RepartitionMessage>,
}

/// To how many partitions rows are sent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BroadcastMessage {
    #[prost(uint64, tag = "1")]
    pub partitions: u64,
}

/// How rows are spread.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RepartitionMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub partitioning: Vec<u8>,
}

impl ExecuteMessage {
    /// Refuses what would take more than any plan of ours does.
    pub fn check(&self) -> Result<(), String> {
        let spread = self.repartition.as_ref().map(|spread| protobuf::Partitioning::decode(&*spread.partitioning));
        let spread = spread.transpose().map_err(|e| e.to_string())?.and_then(|spread| spread.partition_method);
        let count = match spread {
            None => 0,
            Some(PartitionMethod::RoundRobin(count) | PartitionMethod::Unknown(count)) => count,
            Some(PartitionMethod::Hash(hash)) => hash.partition_count,
            Some(_) => return Err("rows are not spread in this way for others".into()),
        };
        let sent = self.broadcast.as_ref().map_or(0, |sent| sent.partitions);
        let partitions = count.max(sent).max(self.end);
        if partitions > STEP_PARTITIONS as u64 || self.first > self.end {
            return Err(format!("a task of {partitions} partitions; at most {STEP_PARTITIONS} are expected"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_are_too_large_are_refused() {
        let fine = ExecuteMessage { first: 0, end: 8, broadcast: None, repartition: None };
        assert!(fine.check().is_ok());
        assert!(ExecuteMessage { end: u64::MAX, ..fine.clone() }.check().is_err());
        assert!(ExecuteMessage { first: 9, ..fine.clone() }.check().is_err());
        let broadcast = Some(BroadcastMessage { partitions: 1 << 40 });
        assert!(ExecuteMessage { broadcast, ..fine.clone() }.check().is_err());
        let spread = |count| {
            let partition_method = Some(PartitionMethod::RoundRobin(count));
            let partitioning = protobuf::Partitioning { partition_method }.encode_to_vec();
            ExecuteMessage { repartition: Some(RepartitionMessage { partitioning }), ..fine.clone() }
        };
        assert!(spread(16).check().is_ok() && spread(1 << 40).check().is_err());
        let wrong = Some(RepartitionMessage { partitioning: vec![0xff; 9] });
        assert!(ExecuteMessage { repartition: wrong, ..fine }.check().is_err());
    }
}
