//! Arrays as the buffers of a record batch: cut to their rows, rebased, in the order of the layout table.
//!
//! Buffers that can go out as they are do; copies are made of bitmaps that begin inside a byte and of offsets that do
//! not begin at 0.

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

use super::schema::Node;
use crate::buffer::slice;
use crate::error::{Error, Result};
use crate::layout::Role;

/// The lists of a record batch, and the buffers they describe.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Length and null count of each field node.
    pub nodes: Vec<(i64, i64)>,
    pub buffers: Vec<Buffer>,
    pub variadics: Vec<i64>,
}

/// Finds the keys that a dictionary-encoded array gets in the written file.
pub(super) trait Keys {
    /// The keys of `array`, `array.len()` of them from the buffer's start on.
    fn keys(&mut self, id: i64, array: &ArrayData) -> Result<Buffer>;
}

impl Body {
    /// Adds `array`, whose place in the schema is `node`.
    pub(super) fn add(&mut self, node: &Node, array: &ArrayData, keys: &mut impl Keys) -> Result<()> {
        let nulls = if array.data_type() == &DataType::Null { array.len() } else { array.null_count() };
        self.nodes.push((array.len() as i64, nulls as i64));
        if node.layout.has_validity() {
            self.buffers.push(validity(array));
        }
        match (&node.dictionary, array.data_type()) {
            (Some((id, _)), _) => self.buffers.push(keys.keys(*id, array)?),
            (None, DataType::RunEndEncoded(..)) => return self.add_runs(node, array, keys),
            (None, _) => self.add_values(node, array)?,
        }
        let children = children_of(array)?;
        node.children.iter().zip(&children).try_for_each(|(child, array)| self.add(child, array, keys))
    }

    fn add_values(&mut self, node: &Node, array: &ArrayData) -> Result<()> {
        for (number, role) in node.layout.value_roles().enumerate() {
            let buffer = buffer_of(array, number)?;
            self.buffers.push(match role {
                Role::Offsets { width: 8 } => offsets::<8>(array, &buffer)?.0,
                Role::Offsets { .. } => offsets::<4>(array, &buffer)?.0,
                Role::Data => data_of(array, buffer)?,
                Role::Bits => bits(&buffer, array.offset(), array.len()),
                role => rows_of(&buffer, role, array)?,
            });
        }
        if node.layout.variadic {
            let data = array.buffers().get(1..).unwrap_or_default();
            self.variadics.push(data.len() as i64);
            self.buffers.extend(data.iter().cloned());
        }
        Ok(())
    }

    /// Runs are cut to the array's rows: ends counted from its first row, the last one at its length.
    fn add_runs(&mut self, node: &Node, array: &ArrayData, keys: &mut impl Keys) -> Result<()> {
        let ([run_ends, values], [ends_node, values_node]) = (array.child_data(), &node.children[..]) else {
            return Err(Error::invalid("run-end encoding has 2 children"));
        };
        let (from, to) = (array.offset() as i64, (array.offset() + array.len()) as i64);
        let ends = (0..run_ends.len()).map(|run| match crate::value::value(run_ends, run)? {
            crate::Value::Int(end) => Ok(end),
            _ => Err(Error::invalid("a run end is null")),
        });
        let ends = ends.collect::<Result<Vec<i64>>>()?;
        let first = ends.partition_point(|&end| end <= from);
        let last = if array.is_empty() { first } else { ends.partition_point(|&end| end < to) + 1 };
        let cut: Vec<i64> = ends[first..last].iter().map(|&end| end.min(to) - from).collect();
        let width = run_ends.data_type().primitive_width().unwrap_or(8);
        self.nodes.push((cut.len() as i64, 0));
        self.buffers.push(Buffer::from_vec(Vec::<u8>::new()));
        self.buffers.push(Buffer::from_vec(cut.iter().flat_map(|end| end.to_le_bytes()[..width].to_vec()).collect()));
        debug_assert_eq!(ends_node.layout.roles().count(), 2);
        self.add(values_node, &slice(values, first, last - first), keys)
    }
}

/// The children as they go with the array's rows.
fn children_of(array: &ArrayData) -> Result<Vec<ArrayData>> {
    let children = array.child_data();
    let all = |start: usize, len: usize| children.iter().map(|child| slice(child, start, len)).collect();
    Ok(match array.data_type() {
        DataType::List(_) | DataType::Map(..) => {
            let (_, range) = offsets::<4>(array, &buffer_of(array, 0)?)?;
            all(range.start, range.len())
        }
        DataType::LargeList(_) => {
            let (_, range) = offsets::<8>(array, &buffer_of(array, 0)?)?;
            all(range.start, range.len())
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            all(array.offset() * size, array.len() * size)
        }
        DataType::Union(_, UnionMode::Sparse) => all(array.offset(), array.len()),
        DataType::Struct(_) => all(0, array.len()),
        // Offsets of list views and dense unions point anywhere into their children, which therefore stay whole.
        _ => children.to_vec(),
    })
}

fn buffer_of(array: &ArrayData, number: usize) -> Result<Buffer> {
    let buffer = array.buffers().get(number).cloned();
    buffer.ok_or_else(|| Error::invalid(format!("{} without buffer {number}", array.data_type())))
}

fn validity(array: &ArrayData) -> Buffer {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => bits(nulls.buffer(), nulls.offset(), nulls.len()),
        _ => Buffer::from_vec(Vec::<u8>::new()),
    }
}

fn bits(buffer: &Buffer, offset: usize, len: usize) -> Buffer {
    BooleanBuffer::new(buffer.clone(), offset, len).sliced()
}

/// The bytes of the array's rows, for roles that hold the same number of bytes for each.
fn rows_of(buffer: &Buffer, role: Role, array: &ArrayData) -> Result<Buffer> {
    let place = role.bytes_for(array.offset()).zip(role.bytes_for(array.len()));
    let fits = place.filter(|(start, len)| start.checked_add(*len).is_some_and(|end| end <= buffer.len()));
    let (start, len) = fits.ok_or_else(|| Error::invalid(format!("a {} buffer is too short", role.name())))?;
    Ok(buffer.slice_with_length(start, len))
}

/// Offsets that begin at 0, and the range of the child or data that they are about.
fn offsets<const N: usize>(array: &ArrayData, buffer: &Buffer) -> Result<(Buffer, std::ops::Range<usize>)> {
    if array.is_empty() {
        return Ok((Buffer::from_vec(vec![0u8; N]), 0..0));
    }
    let all = buffer.get(array.offset() * N..(array.offset() + array.len() + 1) * N);
    let all = all.ok_or_else(|| Error::invalid("an offsets buffer is too short"))?;
    let number = |raw: &[u8; N]| {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(raw);
        u64::from_le_bytes(wide)
    };
    let (raw, _) = all.as_chunks::<N>();
    let (first, last) = (number(&raw[0]), number(&raw[raw.len() - 1]));
    let range = usize::try_from(first).ok().zip(usize::try_from(last).ok()).filter(|(first, last)| first <= last);
    let (start, end) = range.ok_or_else(|| Error::invalid("offsets are not in order"))?;
    if first == 0 {
        return Ok((buffer.slice_with_length(array.offset() * N, all.len()), start..end));
    }
    let rebased = raw.iter().flat_map(|raw| number(raw).wrapping_sub(first).to_le_bytes()[..N].to_vec()).collect();
    Ok((Buffer::from_vec::<u8>(rebased), start..end))
}

fn data_of(array: &ArrayData, data: Buffer) -> Result<Buffer> {
    let (_, range) = match array.data_type() {
        DataType::LargeUtf8 | DataType::LargeBinary => offsets::<8>(array, &buffer_of(array, 0)?)?,
        _ => offsets::<4>(array, &buffer_of(array, 0)?)?,
    };
    match range.end <= data.len() {
        true => Ok(data.slice_with_length(range.start, range.len())),
        false => Err(Error::invalid("offsets end behind their data")),
    }
}
