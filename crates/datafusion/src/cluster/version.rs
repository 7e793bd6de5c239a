//! [`version`]: what has to be the same in all programs of a cluster.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;

/// Changes with the meaning of messages, and with the engine: only one version reads its plans.
const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "/datafusion-55/distributed-4");
/// Rows that are spread, and partitions: a prime number.
const ROWS: i32 = 512;
const PARTITIONS: usize = 251;

/// The version of this program, and where it puts rows: servers that put equal rows at different places, as builds for
/// different processors may, would group and join them apart.
pub(crate) fn version() -> Result<String> {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS));
    let columns: [ArrayRef; 2] = [
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| f64::from(row) / 7.0))),
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row} of a text")))),
    ];
    let [floats, texts] = columns;
    let batch = RecordBatch::try_from_iter([("number", numbers), ("float", floats), ("text", texts)])?;
    let keys = (0..3).map(|number| {
        let field = batch.schema_ref().field(number);
        Arc::new(Column::new(field.name(), number)) as Arc<dyn PhysicalExpr>
    });
    let mut place = vec![0_usize; ROWS as usize];
    for keys in keys.clone().map(|key| vec![key]).chain([keys.collect()]) {
        BatchPartitioner::new_hash_partitioner(keys, PARTITIONS, Time::new())?.partition(
            batch.clone(),
            |partition, batch| {
                for row in batch.column(0).as_primitive::<Int32Type>().values() {
                    if let Some(place) = place.get_mut(*row as usize) {
                        *place = *place * PARTITIONS + partition;
                    }
                }
                Ok(())
            },
        )?;
    }
    // FNV-1a.
    let sum =
        place.into_iter().fold(0xcbf2_9ce4_8422_2325, |sum, place| (sum ^ place as u64).wrapping_mul(0x0100_0000_01b3));
    Ok(format!("{PROGRAM}/{sum:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_same_each_time() {
        let version = version().unwrap();
        assert!(version.starts_with("0.1.0/") && version.len() == PROGRAM.len() + 17, "{version}");
        assert_eq!(version, super::version().unwrap());
    }
}
