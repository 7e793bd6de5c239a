//! Errors of Arrowwood as errors of DataFusion.

use datafusion::error::DataFusionError;

/// Wraps an error of Arrowwood.
pub(crate) fn to_external_error(error: arrowwood::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
