//! The buffers of all chunks of a column, in one table.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};
use arrowwood::layout::{BufferRole, layout};
use arrowwood::{Column, ExportOptions, FixedWidthChunk, Result};

use crate::dataset::CDataset;
use crate::error::invalid_argument;
use crate::ffi::*;

/// The bits of a byte of a bitmap.
const BITS: usize = u8::BITS as usize;
/// The bytes of a view of text or bytes.
const VIEW_SIZE: usize = 16;

/// `arrowwood_buffer`: an address, 0 for none, and a size in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CBuffer {
    data: usize,
    size: u64,
}

/// `arrowwood_chunk`. Pointers are addresses, so that the table is `Send` and `Sync`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CChunk {
    first_row: u64,
    rows: u64,
    null_count: u64,
    validity: CBuffer,
    values: CBuffer,
    offsets: CBuffer,
    sizes: CBuffer,
    data: CBuffer,
    validity_bit: u32,
    values_bit: u32,
    run_offset: u64,
    variadic: usize,
    variadic_count: u64,
    children: usize,
    child_count: u64,
    dictionary: usize,
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CBuffer>() == 16 && size_of::<CChunk>() == 160);
    assert!(offset_of!(CChunk, null_count) == 16 && offset_of!(CChunk, validity) == 24);
    assert!(offset_of!(CChunk, values) == 40 && offset_of!(CChunk, offsets) == 56 && offset_of!(CChunk, sizes) == 72);
    assert!(offset_of!(CChunk, data) == 88 && offset_of!(CChunk, validity_bit) == 104);
    assert!(offset_of!(CChunk, values_bit) == 108 && offset_of!(CChunk, run_offset) == 112);
    assert!(offset_of!(CChunk, variadic) == 120 && offset_of!(CChunk, children) == 136);
    assert!(offset_of!(CChunk, child_count) == 144 && offset_of!(CChunk, dictionary) == 152);
};

/// `arrowwood_chunks`: a table of chunks, and all that its addresses point to, which the other fields keep.
pub struct CChunks {
    table: Box<[CChunk]>,
    _storage: ChunkStorage,
    _memory: BufferOwner,
}

/// The owner of a table's buffers.
enum BufferOwner {
    Arrays {
        _kept: Vec<ArrayData>,
    },
    /// The files mapped by a column.
    Column {
        _kept: Column,
    },
}

impl Opaque for CChunks {
    const NAME: &'static str = "arrowwood_chunks";
    const TAG: u64 = u64::from_le_bytes(*b"aw_chunk");
}

/// The tables that chunks point to: of their children and dictionaries, and of the buffers of views.
#[derive(Default)]
struct ChunkStorage {
    children: Vec<Box<[CChunk]>>,
    variadics: Vec<Box<[CBuffer]>>,
}

impl CChunks {
    fn new(column: &Column, export: ExportOptions) -> Result<CChunks> {
        match column.fixed_width_chunks(export)? {
            Some(values) => Ok(CChunks::from_plain(column, &values)),
            None => CChunks::from_arrays(column.chunks_with(export)?),
        }
    }

    /// Exports numbers without nulls, without making arrays of them.
    fn from_plain(column: &Column, values: &[FixedWidthChunk<'_>]) -> CChunks {
        let mut first_row = 0;
        let mut table = Vec::with_capacity(values.len());
        for plain in values {
            let rows = plain.rows as u64;
            let values = CBuffer { data: plain.values.as_ptr().expose_provenance(), size: plain.values.len() as u64 };
            table.push(CChunk { first_row, rows, values, ..CChunk::default() });
            first_row += rows;
        }
        CChunks {
            table: table.into(),
            _storage: ChunkStorage::default(),
            _memory: BufferOwner::Column { _kept: column.clone() },
        }
    }

    fn from_arrays(arrays: Vec<ArrayData>) -> Result<CChunks> {
        let mut storage = ChunkStorage::default();
        let mut first_row = 0;
        let mut table = Vec::with_capacity(arrays.len());
        for array in &arrays {
            table.push(CChunk { first_row, ..storage.chunk(array)? });
            first_row += array.len() as u64;
        }
        Ok(CChunks { table: table.into(), _storage: storage, _memory: BufferOwner::Arrays { _kept: arrays } })
    }
}

impl ChunkStorage {
    fn chunk(&mut self, array: &ArrayData) -> Result<CChunk> {
        let mut chunk = CChunk { rows: array.len() as u64, ..CChunk::default() };
        if let Some(nulls) = array.nulls() {
            let bits = nulls.inner();
            chunk.null_count = nulls.null_count() as u64;
            (chunk.validity, chunk.validity_bit) =
                (buffer_at(bits.inner(), bits.offset() / BITS)?, (bits.offset() % BITS) as u32);
        }
        let mut buffers = array.buffers().iter();
        for role in layout(array.data_type()).value_roles() {
            let Some(buffer) = buffers.next() else { break };
            chunk.set(role, array, buffer)?;
        }
        let rest: Box<[CBuffer]> = buffers.map(|buffer| buffer_at(buffer, 0)).collect::<Result<_>>()?;
        (chunk.variadic, chunk.variadic_count) = (address(&rest), rest.len() as u64);
        self.variadics.extend((!rest.is_empty()).then_some(rest));
        self.add_children(&mut chunk, array)?;
        Ok(chunk)
    }

    fn add_children(&mut self, chunk: &mut CChunk, array: &ArrayData) -> Result<()> {
        use DataType::{Dictionary, FixedSizeList, Null, RunEndEncoded, Struct, Union};
        let children = array.child_data().iter().map(|child| self.chunk(child)).collect::<Result<Box<[_]>>>()?;
        match array.data_type() {
            Null => chunk.null_count = chunk.rows,
            RunEndEncoded(..) => chunk.run_offset = array.offset() as u64,
            // Slicing an array slices its children.
            FixedSizeList(..) | Struct(_) | Union(_, UnionMode::Sparse) if array.offset() > 0 => {
                return Err(invalid_argument(format!(
                    "a chunk of {} begins inside of its children",
                    array.data_type()
                )));
            }
            _ => {}
        }
        match array.data_type() {
            Dictionary(..) => chunk.dictionary = address(&children),
            _ => (chunk.children, chunk.child_count) = (address(&children), children.len() as u64),
        }
        self.children.extend((!children.is_empty()).then_some(children));
        Ok(())
    }
}

impl CChunk {
    /// Records a buffer, from the chunk's first row on.
    fn set(&mut self, role: BufferRole, array: &ArrayData, buffer: &Buffer) -> Result<()> {
        let rows = array.offset();
        match role {
            BufferRole::Bits => {
                (self.values, self.values_bit) = (buffer_at(buffer, rows / BITS)?, (rows % BITS) as u32)
            }
            BufferRole::Values { width, .. } => self.values = buffer_at(buffer, rows * width)?,
            BufferRole::Views => self.values = buffer_at(buffer, rows * VIEW_SIZE)?,
            BufferRole::TypeIds => self.values = buffer_at(buffer, rows)?,
            BufferRole::Offsets { width } | BufferRole::Starts { width } => {
                self.offsets = buffer_at(buffer, rows * width)?
            }
            BufferRole::Sizes { width } => self.sizes = buffer_at(buffer, rows * width)?,
            BufferRole::Data => self.data = buffer_at(buffer, 0)?,
            BufferRole::Validity => {}
        }
        Ok(())
    }
}

/// Returns the bytes of `buffer` from byte `start` on.
fn buffer_at(buffer: &Buffer, start: usize) -> Result<CBuffer> {
    // A chunk without rows has empty buffers, wherever it begins.
    let start = if buffer.is_empty() { 0 } else { start };
    let bytes = buffer.as_slice().get(start..);
    let bytes =
        bytes.ok_or_else(|| invalid_argument(format!("a buffer of {} bytes has no byte {start}", buffer.len())))?;
    Ok(CBuffer { data: bytes.as_ptr().expose_provenance(), size: bytes.len() as u64 })
}

/// Returns the address of a part of the table; 0 if it is empty.
fn address<T>(part: &[T]) -> usize {
    if part.is_empty() { 0 } else { part.as_ptr().expose_provenance() }
}

export_infallible! {
    /// Frees a table of chunks.
    fn arrowwood_chunks_free(owner: OwnedHandle<CChunks>) {
        owner.free();
    }
}

export! {
    /// The addresses of all values of a column.
    fn arrowwood_dataset_chunks(
        dataset: HandleRef<CDataset>, column: usize, flags: ExportFlags, chunks: OutPtr<*const CChunk>,
        count: OutPtr<usize>, owner: HandleOut<CChunks>,
    ) {
        let exported = CChunks::new(dataset.column(column)?, flags)?;
        chunks.put(if exported.table.is_empty() { std::ptr::null() } else { exported.table.as_ptr() });
        count.put(exported.table.len());
        owner.put(exported);
        Ok(())
    }
}
