//! [`version`]: the version that all programs of a cluster must share.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;

/// The version of the messages and of the engine, whose plans only the same version can read.
const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "/datafusion-55/distributed-4");
/// The number of sample rows that are hashed into partitions.
const ROWS: i32 = 512;
/// The number of partitions: a prime number.
const PARTITIONS: usize = 251;

/// Returns the version of this program, with a fingerprint of how it hashes rows into partitions.
///
/// Builds for different processors may hash differently. Servers that put equal rows into different partitions would
/// group and join them wrongly.
pub(crate) fn version() -> Result<String> {
    let batch = sample_rows()?;
    let mut keys: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for (index, field) in batch.schema_ref().fields().iter().enumerate() {
        keys.push(Arc::new(Column::new(field.name(), index)));
    }
    // The partitions of each row by each column, and by all columns together.
    let mut fingerprints = vec![0_usize; ROWS as usize];
    for keys in keys.clone().into_iter().map(|key| vec![key]).chain([keys]) {
        BatchPartitioner::new_hash_partitioner(keys, PARTITIONS, Time::new())?.partition(
            batch.clone(),
            |partition, batch| {
                for row in batch.column(0).as_primitive::<Int32Type>().values() {
                    if let Some(fingerprint) = fingerprints.get_mut(*row as usize) {
                        *fingerprint = *fingerprint * PARTITIONS + partition;
                    }
                }
                Ok(())
            },
        )?;
    }
    Ok(format!("{PROGRAM}/{:016x}", fnv1a(&fingerprints)))
}

/// Returns rows of an integer, which is the row number, a float and a text.
fn sample_rows() -> Result<RecordBatch> {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| f64::from(row) / 7.0)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row} of a text"))));
    Ok(RecordBatch::try_from_iter([("number", numbers), ("float", floats), ("text", texts)])?)
}

/// Hashes words as FNV-1a does bytes.
fn fnv1a(words: &[usize]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for word in words {
        hash = (hash ^ *word as u64).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_deterministic() {
        let version = version().unwrap();
        assert!(version.starts_with("0.1.0/") && version.len() == PROGRAM.len() + 17, "{version}");
        assert_eq!(version, super::version().unwrap());
    }
}
