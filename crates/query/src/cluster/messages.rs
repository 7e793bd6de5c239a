//! The messages between the servers of a cluster and their callers, other than the engine's own.

use datafusion_proto::protobuf;
use datafusion_proto::protobuf::partitioning::PartitionMethod;
use prost::Message;

/// The maximum number of partitions of an operator.
pub(super) const MAX_PARTITIONS: usize = 1 << 14;

/// The first request of a query, which fixes the rows of its tables.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    /// A random number that identifies the query.
    #[prost(bytes = "vec", tag = "2")]
    pub query: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    pub tables: Vec<String>,
}

/// The requested tables that the server has.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    /// The number that identifies the process of the server.
    #[prost(bytes = "vec", tag = "2")]
    pub process: Vec<u8>,
    /// An id of the directory that it serves, which is the same in all processes.
    #[prost(bytes = "vec", tag = "3")]
    pub directory: Vec<u8>,
    #[prost(uint32, tag = "4")]
    pub cores: u32,
    #[prost(message, repeated, tag = "5")]
    pub tables: Vec<OpenedTable>,
}

/// A table whose rows are fixed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenedTable {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub schema: Option<protobuf::Schema>,
    #[prost(uint64, tag = "3")]
    pub rows: u64,
}

/// The part of a table that a task reads: rows of one server.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PartMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub query: Vec<u8>,
    /// The process that fixed the rows; empty for a part without rows.
    #[prost(bytes = "vec", tag = "2")]
    pub process: Vec<u8>,
    #[prost(string, tag = "3")]
    pub table: String,
    /// The columns to return, in order.
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
pub(super) struct FilterMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub expr: Vec<u8>,
    /// True if the caller does not apply it again.
    #[prost(bool, tag = "2")]
    pub is_exact: bool,
}

/// The fields of the engine's request to execute a task that determine the size of its plan.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecuteMessage {
    #[prost(uint64, tag = "2")]
    pub first: u64,
    #[prost(uint64, tag = "3")]
    pub end: u64,
    #[prost(message, optional, tag = "7")]
    pub broadcast: Option<BroadcastMessage>,
    #[prost(message, optional, tag = "8")]
    pub repartition: Option<RepartitionMessage>,
}

/// The number of partitions that all rows are sent to.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BroadcastMessage {
    #[prost(uint64, tag = "1")]
    pub partitions: u64,
}

/// How rows are distributed over partitions.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RepartitionMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub partitioning: Vec<u8>,
}

impl ExecuteMessage {
    /// Returns an error for a task with more partitions than any plan of ours has.
    pub fn check(&self) -> Result<(), String> {
        let mut partitions = self.end;
        if let Some(broadcast) = &self.broadcast {
            partitions = partitions.max(broadcast.partitions);
        }
        if let Some(repartition) = &self.repartition {
            let partitioning = protobuf::Partitioning::decode(&*repartition.partitioning).map_err(|e| e.to_string())?;
            partitions = partitions.max(match partitioning.partition_method {
                None => 0,
                Some(PartitionMethod::RoundRobin(count) | PartitionMethod::Unknown(count)) => count,
                Some(PartitionMethod::Hash(hash)) => hash.partition_count,
                Some(_) => return Err("rows are not spread in this way for others".into()),
            });
        }
        if partitions > MAX_PARTITIONS as u64 || self.first > self.end {
            return Err(format!("a task of {partitions} partitions; at most {MAX_PARTITIONS} are expected"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_robin(partitions: u64) -> RepartitionMessage {
        let partition_method = Some(PartitionMethod::RoundRobin(partitions));
        RepartitionMessage { partitioning: protobuf::Partitioning { partition_method }.encode_to_vec() }
    }

    #[test]
    fn tasks_with_too_many_partitions_are_rejected() {
        let valid = ExecuteMessage { first: 0, end: 8, broadcast: None, repartition: None };
        assert!(valid.check().is_ok());
        assert!(ExecuteMessage { end: u64::MAX, ..valid.clone() }.check().is_err());
        assert!(ExecuteMessage { first: 9, ..valid.clone() }.check().is_err());
        let broadcast = Some(BroadcastMessage { partitions: 1 << 40 });
        assert!(ExecuteMessage { broadcast, ..valid.clone() }.check().is_err());
        assert!(ExecuteMessage { repartition: Some(round_robin(16)), ..valid.clone() }.check().is_ok());
        assert!(ExecuteMessage { repartition: Some(round_robin(1 << 40)), ..valid.clone() }.check().is_err());
        let undecodable = Some(RepartitionMessage { partitioning: vec![0xff; 9] });
        assert!(ExecuteMessage { repartition: undecodable, ..valid }.check().is_err());
    }
}
