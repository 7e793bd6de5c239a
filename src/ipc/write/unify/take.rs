//! Rows of several arrays put into one.
//!
//! Every row is read like a cell, by its place and bounded, so neither misaligned nor damaged buffers matter here.

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::canonical::{Budget, cell, is_null};
use crate::array::{Parts, key};
use crate::error::{Error, Result};
use crate::ipc::framing::Node;
use crate::ipc::write::encode::{child_of, items, member, run_at};

/// A row: the number of its array, and its number there.
pub(super) type Pick = (usize, usize);

/// Where the values of inner dictionaries are after they were put together.
pub(super) trait Inner {
    /// The whole dictionary `id`, and the places there of the values of `part` where they are not their own.
    fn whole(&mut self, id: i64, part: &ArrayData) -> Result<(ArrayData, Option<&[u64]>)>;
}

/// Takes rows of arrays of one type.
pub(super) struct Take<'a> {
    pub budget: &'a mut Budget,
    pub inner: &'a mut dyn Inner,
}

impl Take<'_> {
    pub(super) fn take(&mut self, node: &Node, from: &[&ArrayData], picks: &[Pick]) -> Result<ArrayData> {
        use DataType::*;
        self.budget.spend(picks.len())?;
        let validity = if node.layout.has_validity() { validity(from, picks)? } else { None };
        let (buffers, children) = match node.data_type() {
            Null => (Vec::new(), Vec::new()),
            Dictionary(..) => self.keys(node, from, picks)?,
            Boolean => (vec![bits(from, picks)?], Vec::new()),
            Utf8 | Binary => (self.strings(from, picks, 4)?, Vec::new()),
            LargeUtf8 | LargeBinary => (self.strings(from, picks, 8)?, Vec::new()),
            Utf8View | BinaryView => (self.views(from, picks)?, Vec::new()),
            List(_) | Map(..) | ListView(_) => self.lists(node, from, picks, 4)?,
            LargeList(_) | LargeListView(_) => self.lists(node, from, picks, 8)?,
            FixedSizeList(_, size) => (Vec::new(), self.fixed_lists(node, from, picks, *size)?),
            Struct(_) => (Vec::new(), self.children(node, from, picks)?),
            Union(_, mode) => self.union(node, from, picks, *mode == arrow_schema::UnionMode::Dense)?,
            RunEndEncoded(..) => (Vec::new(), self.runs(node, from, picks)?),
            _ => (vec![fixed(node, from, picks)?], Vec::new()),
        };
        Ok(Parts { data_type: node.data_type().clone(), len: picks.len(), validity, buffers, children }.assemble())
    }

    /// The same rows of every child.
    fn children(&mut self, node: &Node, from: &[&ArrayData], picks: &[Pick]) -> Result<Vec<ArrayData>> {
        let taken = node.children.iter().enumerate();
        taken.map(|(number, child)| self.take(child, &children(from, number)?, picks)).collect()
    }

    fn keys(&mut self, node: &Node, from: &[&ArrayData], picks: &[Pick]) -> Result<(Vec<Buffer>, Vec<ArrayData>)> {
        let DataType::Dictionary(index, _) = node.data_type() else { return Err(Error::invalid("not a dictionary")) };
        let Some((id, values)) = &node.dictionary else { return Err(Error::invalid("a dictionary without an id")) };
        let width = index.primitive_width().unwrap_or(8);
        let mut keys = vec![0; picks.len() * width];
        let mut whole = ArrayData::new_empty(values.data_type());
        // Array by array, so that the places of each are looked up once.
        let mut order: Vec<usize> = (0..picks.len()).collect();
        order.sort_by_key(|&i| picks[i].0);
        for run in order.chunk_by(|&a, &b| picks[a].0 == picks[b].0) {
            let array = from[picks[run[0]].0];
            let (all, places) = self.inner.whole(*id, child_of(array, 0)?)?;
            whole = all;
            for &i in run {
                if !is_null(array, picks[i].1)? {
                    let key = key(array, array.offset() + picks[i].1)?;
                    let place = places.map_or(key as u64, |places| places.get(key).copied().unwrap_or(0));
                    keys[i * width..(i + 1) * width].copy_from_slice(&place.to_le_bytes()[..width]);
                }
            }
        }
        Ok((vec![Buffer::from_vec(keys)], vec![whole]))
    }

    fn strings(&mut self, from: &[&ArrayData], picks: &[Pick], width: usize) -> Result<Vec<Buffer>> {
        let (mut offsets, mut data) = (Offsets::new(width), Vec::new());
        for &(number, row) in picks {
            if !is_null(from[number], row)? {
                let bytes = cell(from[number], row)?;
                self.budget.spend(bytes.len())?;
                data.extend_from_slice(bytes);
            }
            offsets.push(data.len())?;
        }
        Ok(vec![Buffer::from_vec(offsets.bytes), Buffer::from_vec(data)])
    }

    /// Views over one buffer; they can't point further than 2 GiB.
    fn views(&mut self, from: &[&ArrayData], picks: &[Pick]) -> Result<Vec<Buffer>> {
        let (mut views, mut data) = (vec![[0u8; 16]; picks.len()], Vec::new());
        for (view, &(number, row)) in views.iter_mut().zip(picks) {
            if is_null(from[number], row)? {
                continue;
            }
            let bytes = cell(from[number], row)?;
            self.budget.spend(bytes.len())?;
            view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            match bytes.first_chunk::<4>().filter(|_| bytes.len() > 12) {
                None => view[4..4 + bytes.len()].copy_from_slice(bytes),
                Some(prefix) => {
                    view[4..8].copy_from_slice(prefix);
                    view[12..].copy_from_slice(&(data.len() as i32).to_le_bytes());
                    data.extend_from_slice(bytes);
                    i32::try_from(data.len()).map_err(|_| too_large())?;
                }
            }
        }
        let views = Buffer::from_vec(views.into_flattened());
        Ok(if data.is_empty() { vec![views] } else { vec![views, Buffer::from_vec(data)] })
    }

    /// Lists with offsets, and list views, whose sizes follow from the same offsets.
    fn lists(
        &mut self,
        node: &Node,
        from: &[&ArrayData],
        picks: &[Pick],
        width: usize,
    ) -> Result<(Vec<Buffer>, Vec<ArrayData>)> {
        let (mut offsets, mut sizes, mut inside) = (Offsets::new(width), Vec::new(), Vec::new());
        for &(number, row) in picks {
            is_null(from[number], row)?;
            let items = items(from[number], row)?;
            self.budget.spend(items.len())?;
            sizes.extend_from_slice(&items.len().to_le_bytes()[..width]);
            inside.extend(items.map(|item| (number, item)));
            offsets.push(inside.len())?;
        }
        let is_view = matches!(node.data_type(), DataType::ListView(_) | DataType::LargeListView(_));
        let buffers = match is_view {
            true => {
                offsets.bytes.truncate(sizes.len());
                vec![Buffer::from_vec(offsets.bytes), Buffer::from_vec(sizes)]
            }
            false => vec![Buffer::from_vec(offsets.bytes)],
        };
        Ok((buffers, self.children(node, from, &inside)?))
    }

    fn fixed_lists(&mut self, node: &Node, from: &[&ArrayData], picks: &[Pick], size: i32) -> Result<Vec<ArrayData>> {
        let size = usize::try_from(size).unwrap_or(0);
        self.budget.spend(picks.len().saturating_mul(size))?;
        let starts = picks.iter().map(|&(number, row)| (number, (from[number].offset() + row).saturating_mul(size)));
        let inside: Vec<Pick> =
            starts.flat_map(|(number, at)| (at..at.saturating_add(size)).map(move |row| (number, row))).collect();
        self.children(node, from, &inside)
    }

    fn union(
        &mut self,
        node: &Node,
        from: &[&ArrayData],
        picks: &[Pick],
        is_dense: bool,
    ) -> Result<(Vec<Buffer>, Vec<ArrayData>)> {
        let mut ids = Vec::with_capacity(picks.len());
        let (mut offsets, mut inside) = (Vec::new(), vec![Vec::new(); node.children.len()]);
        for &(number, row) in picks {
            let member = member(from[number], row)?;
            ids.push(member.id.cast_unsigned());
            let rows = inside.get_mut(member.number).ok_or_else(|| Error::invalid("a union without its child"))?;
            offsets.push(i32::try_from(rows.len()).map_err(|_| too_large())?.to_le_bytes());
            rows.push((number, member.row));
        }
        if !is_dense {
            let rows: Vec<Pick> = picks.iter().map(|&(number, row)| (number, from[number].offset() + row)).collect();
            return Ok((vec![Buffer::from_vec(ids)], self.children(node, from, &rows)?));
        }
        let taken = node.children.iter().zip(&inside).enumerate();
        let taken = taken.map(|(number, (child, rows))| self.take(child, &children(from, number)?, rows));
        let taken = taken.collect::<Result<_>>()?;
        Ok((vec![Buffer::from_vec(ids), Buffer::from_vec(offsets.into_flattened())], taken))
    }

    fn runs(&mut self, node: &Node, from: &[&ArrayData], picks: &[Pick]) -> Result<Vec<ArrayData>> {
        let [ends_node, values_node] = &node.children[..] else { return Err(Error::invalid("runs without values")) };
        let width = ends_node.data_type().primitive_width().unwrap_or(8);
        let (mut runs, mut ends) = (Vec::<Pick>::new(), Vec::new());
        for (row, &(number, picked)) in picks.iter().enumerate() {
            let run = (number, run_at(child_of(from[number], 0)?, from[number].offset() + picked)?);
            if runs.last() == Some(&run) {
                ends.pop();
            } else {
                runs.push(run);
            }
            ends.push(row + 1);
        }
        let largest = i64::MAX as u64 >> (64 - 8 * width);
        if ends.last().is_some_and(|&end| end as u64 > largest) {
            return Err(too_large());
        }
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes().into_iter().take(width)).collect();
        let (data_type, len) = (ends_node.data_type().clone(), runs.len());
        let buffers = vec![Buffer::from_vec(ends)];
        let ends = Parts { data_type, len, validity: None, buffers, children: Vec::new() }.assemble();
        Ok(vec![ends, self.take(values_node, &children(from, 1)?, &runs)?])
    }
}

fn children<'a>(from: &[&'a ArrayData], number: usize) -> Result<Vec<&'a ArrayData>> {
    from.iter().map(|array| child_of(array, number)).collect()
}

fn validity(from: &[&ArrayData], picks: &[Pick]) -> Result<Option<(Buffer, usize)>> {
    let mut nulls = 0;
    for &(number, row) in picks {
        nulls += usize::from(is_null(from[number], row)?);
    }
    let valid = |i: usize| is_null(from[picks[i].0], picks[i].1).is_ok_and(|is_null| !is_null);
    Ok((nulls > 0).then(|| (BooleanBuffer::collect_bool(picks.len(), valid).into_inner(), nulls)))
}

fn bits(from: &[&ArrayData], picks: &[Pick]) -> Result<Buffer> {
    let bits = picks.iter().map(|&(number, row)| Ok(cell(from[number], row)? == [1]));
    let bits = bits.collect::<Result<Vec<bool>>>()?;
    Ok(BooleanBuffer::from(bits).into_inner())
}

fn fixed(node: &Node, from: &[&ArrayData], picks: &[Pick]) -> Result<Buffer> {
    let width = node.layout.value_roles().next().and_then(|role| role.bytes_for(1)).unwrap_or(0);
    let mut values = Vec::new();
    for &(number, row) in picks {
        match is_null(from[number], row)? {
            true => values.resize(values.len() + width, 0),
            false => values.extend_from_slice(cell(from[number], row)?),
        }
    }
    Ok(Buffer::from_vec(values))
}

/// Offsets as they grow.
struct Offsets {
    bytes: Vec<u8>,
    width: usize,
}

impl Offsets {
    fn new(width: usize) -> Offsets {
        Offsets { bytes: vec![0; width], width }
    }

    fn push(&mut self, end: usize) -> Result<()> {
        if self.width == 4 {
            i32::try_from(end).map_err(|_| too_large())?;
        }
        self.bytes.extend_from_slice(&end.to_le_bytes()[..self.width]);
        Ok(())
    }
}

fn too_large() -> Error {
    Error::unsupported("dictionaries that are too large together for the offsets of their type")
}
