//! The layout of a new segment's file: the front that Arrow readers expect, and the header.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ipc::{empty_metadata, schema_metadata};
use crate::rows::{Plan, ZoneMap};
use crate::table::format::{Header, MINOR, PAGE, ROWS, TableSettings};
use crate::table::placement;
use crate::table::protocol::{FooterSizes, ring_size};

/// The maximum size of the schema that a segment's footers share, in bytes.
const MAX_SCHEMA: usize = 16 << 20;

/// The size of the log in bytes: some hundred small commits.
const LOG: u64 = 512 << 10;

/// The word before the length of an Arrow message.
const CONTINUATION: u32 = u32::MAX;
/// Arrow's messages begin at multiples of this.
const MESSAGE_ALIGNMENT: usize = 8;

/// The parameters of a new segment.
#[derive(Clone, Debug)]
pub(in crate::table) struct SegmentShape {
    pub first_row: u64,
    /// The maximum of each counter of a record.
    pub limits: Vec<u64>,
    pub settings: TableSettings,
}

impl SegmentShape {
    /// Returns the maximum number of rows.
    pub fn capacity(&self) -> u64 {
        self.limits[ROWS]
    }
}

/// The bytes of a new segment's file up to the end of its header, and the header.
pub(super) struct SegmentLayout {
    pub front: Vec<u8>,
    pub header: Header,
}

/// Returns the plan with the zones of one segment.
pub(super) fn plan_with_zones(plan: &Arc<Plan>, zones: &[ZoneMap]) -> Result<Arc<Plan>> {
    if plan.supports_zones(zones) {
        return Ok(plan.clone());
    }
    Plan::for_schema(&plan.schema.schema)?.with_zones(zones).map(Arc::new).map_err(Error::invalid_argument)
}

/// Encodes the bytes before the header: the start of an Arrow file, with the schema's message and an empty one.
pub(in crate::table) fn encode_front(plan: &Plan) -> Vec<u8> {
    let mut front = b"ARROW1\0\0".to_vec();
    for metadata in [schema_metadata(&plan.schema.schema), empty_metadata()] {
        let len = metadata.len().next_multiple_of(MESSAGE_ALIGNMENT);
        front.extend(CONTINUATION.to_le_bytes());
        front.extend((len as u32).to_le_bytes());
        front.extend(&metadata);
        front.resize(front.len().next_multiple_of(MESSAGE_ALIGNMENT), 0);
    }
    front.resize(front.len().next_multiple_of(PAGE as usize), 0);
    front
}

impl SegmentLayout {
    /// Lays out a segment whose footers have the given sizes.
    ///
    /// # Errors
    /// `Unsupported` for a schema that is too large, `InvalidArgument` for more rows than a file has room for.
    pub fn new(plan: &Plan, shape: SegmentShape, sizes: &FooterSizes) -> Result<SegmentLayout> {
        let schema_len = sizes.schema.len();
        if schema_len > MAX_SCHEMA {
            return Err(Error::unsupported(format!(
                "creating a segment: its schema: expected {MAX_SCHEMA} bytes at most, got {schema_len}; give it fewer \
                 columns, or less metadata"
            )));
        }

        let mut front = encode_front(plan);
        let (footers, slot) = ring_size(sizes);
        let shared = (schema_len as u64).div_ceil(sizes.footer);
        let slots = u32::try_from(footers + shared).map_err(|_| Error::internal("footers that can't be counted"))?;
        let chosen = Header {
            first_row: shape.first_row,
            capacity: shape.capacity(),
            minor: MINOR,
            slot,
            slots,
            footer: sizes.footer,
            shared,
            zones: shape.settings.zones(shape.capacity()),
            sorted_by: shape.settings.sorted_by,
            is_late: shape.settings.is_late,
            segment_rows: shape.settings.segment_rows,
            log: LOG,
            limits: shape.limits,
            ..Header::default()
        };

        let len = Header::encoded_len(MINOR, plan.regions, plan.counters, plan.zones.len());
        let header = placement::place(&chosen, front.len(), len, plan)
            .ok_or_else(|| Error::invalid_argument("a segment of that many rows has no room in a file"))?;
        // Readers refuse a header that doesn't pass their checks, and with it the rows.
        Header::check_len(len, plan.zones.len())
            .and_then(|()| placement::check(&header, front.len(), len, plan))
            .map_err(|wrong| {
                Error::unsupported(format!(
                    "creating a segment: its header: {wrong}; the schema is too large: give it fewer columns, or less \
                     metadata"
                ))
            })?;

        assert_eq!(header.regions.len(), plan.regions, "a region for each buffer of the plan");
        let encoded = header.encode();
        assert_eq!(encoded.len(), len, "the header is as long as its place");
        front.extend(encoded);
        Ok(SegmentLayout { front, header })
    }
}
