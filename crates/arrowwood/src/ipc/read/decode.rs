//! Decodes one column of one record batch in place: checks its structure, then makes an array over the body's bytes.
//!
//! The checks here cost O(metadata): counts, lengths, and that each buffer lies in the body and is long enough. The
//! contents of buffers are checked by `validate`, and every load from them is bounds-checked.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, UnionMode};

use crate::array::{ArrayParts, Bytes, UncheckedArray, count_ones};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{
    BatchHeader, BatchShare, Compression, DecompressedBuffer, IpcSchema, Node, V5, body, buffer_roles,
    has_legacy_validity, length,
};
use crate::types::{BufferRole, type_name};

/// The next entry of each list of a record batch's header: its field nodes, buffers and variadic counts. Columns take
/// their entries one after the other, so that the cursor at the end of a column is the start of the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    node: usize,
    buffer: usize,
    variadic: usize,
}

/// The bytes of a body in the file. Not a `Range`: its length is read for each value.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyPosition {
    pub offset: usize,
    pub len: usize,
}

/// A record batch with a header that matches the schema.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub header: BatchHeader,
    pub version: i16,
    pub body: BodyPosition,
    /// The [`Cursor`] of each column, in half the bytes: there may be millions of batches.
    starts: Box<[[u32; 3]]>,
}

impl Cursor {
    fn pack(self) -> Result<[u32; 3]> {
        let numbers = [self.node, self.buffer, self.variadic].map(u32::try_from);
        match numbers {
            [Ok(node), Ok(buffer), Ok(variadic)] => Ok([node, buffer, variadic]),
            _ => Err(Error::invalid(format!("a record batch of {} buffers", self.buffer))),
        }
    }
}

impl Batch {
    /// Checks the numbers of nodes, buffers and variadic counts, and finds the start of each of `columns`.
    pub(in crate::ipc) fn new(
        header: BatchHeader,
        version: i16,
        body: BodyPosition,
        columns: &[Node],
    ) -> Result<Batch> {
        let mut cursor = Cursor::default();
        let mut starts = Vec::with_capacity(columns.len());
        for column in columns {
            starts.push(cursor.pack()?);
            cursor = skip(cursor, column.share, version, &header)?;
        }
        check_count("field nodes", cursor.node, header.nodes.len())?;
        check_count("buffers", cursor.buffer, header.buffers.len())?;
        check_count("variadic buffer counts", cursor.variadic, header.variadics.len())?;
        check_no_overlap(&header, body.len)?;
        Ok(Batch { header, version, body, starts: starts.into() })
    }

    /// Returns the numbers of a column's first field node and buffer.
    pub(super) fn column_start(&self, column: usize) -> Option<(usize, usize)> {
        self.cursor(column).map(|start| (start.node, start.buffer))
    }

    fn cursor(&self, column: usize) -> Option<Cursor> {
        let [node, buffer, variadic] = self.starts.get(column)?.map(|number| number as usize);
        Some(Cursor { node, buffer, variadic })
    }

    /// Returns the bytes of each buffer of a column. Skips buffers that don't lie in the body.
    pub(super) fn column_buffers(&self, column: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let count = self.header.buffers.len();
        let first = self.cursor(column).map_or(count, |start| start.buffer);
        let end = self.cursor(column + 1).map_or(count, |start| start.buffer);
        assert!(first <= end && end <= count, "buffers {first}..{end} of {count} belong to column {column}");
        let body = self.body;
        self.header.buffers[first..end].iter().filter_map(move |&(offset, len)| {
            let start = usize::try_from(offset).ok()?;
            let end = start.checked_add(usize::try_from(len).ok()?).filter(|&end| end <= body.len)?;
            Some(body.offset + start..body.offset + end)
        })
    }
}

/// Returns the cursor after the share of a column that starts at `start`.
fn skip(start: Cursor, share: BatchShare, version: i16, header: &BatchHeader) -> Result<Cursor> {
    let variadic = start.variadic + share.variadics;
    let Some(counts) = header.variadics.get(start.variadic..variadic) else {
        return Err(count_error("variadic buffer counts", variadic, header.variadics.len()));
    };
    let legacy = if version < V5 { share.legacy_validities } else { 0 };
    let mut buffer = start.buffer.saturating_add(share.buffers + legacy);
    for &count in counts {
        buffer = buffer.saturating_add(length("variadic buffer count", count)?);
    }
    Ok(Cursor { node: start.node + share.nodes, buffer, variadic })
}

/// Checks that compressed buffers don't overlap: a small file could make readers decompress one large frame many times.
fn check_no_overlap(header: &BatchHeader, body_len: usize) -> Result<()> {
    let stored = header.buffers.iter().fold(0i64, |sum, &(_, len)| sum.saturating_add(len.max(0)));
    if header.compression.is_some() && usize::try_from(stored).map_or(true, |stored| stored > body_len) {
        return Err(Error::invalid(format!("compressed buffers of {stored} bytes overlap in a body of {body_len}")));
    }
    Ok(())
}

fn check_count(what: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(count_error(what, expected, got)) }
}

fn count_error(what: &str, expected: usize, got: usize) -> Error {
    Error::invalid(format!("record batch: the schema asks for {expected} {what}, got {got}"))
}

/// Finds the values of dictionaries.
pub(super) trait DictionarySource {
    /// Returns the values of dictionary `id` for the batch being decoded; `None` if it has no batch yet.
    fn values(&self, id: i64) -> Result<Option<UncheckedArray>>;
}

/// Decodes columns of record batches that are in `bytes`. A decoder is made for each column: `dictionaries` has the
/// dictionaries of one batch.
pub(super) struct Decoder<'a> {
    pub bytes: &'a Bytes,
    pub schema: &'a IpcSchema,
    pub dictionaries: &'a dyn DictionarySource,
    /// The number of bytes that were copied: decompressed, or converted from big-endian.
    pub copied: &'a AtomicU64,
    /// Set to refuse copies, with [`ErrorKind::CopyNeeded`].
    pub strict: bool,
    /// The limit of bytes that all compressed buffers together may be decompressed to.
    pub max_unpacked: Option<u64>,
    /// Set to check bitmaps of columns that declare no nulls.
    pub thorough: bool,
}

impl Decoder<'_> {
    /// Decodes column `number` of `batch`, whose node is `column`.
    pub(in crate::ipc) fn column(&self, batch: &Batch, column: &Node, number: usize) -> Result<UncheckedArray> {
        let Some(cursor) = batch.cursor(number) else {
            return Err(Error::internal(format_args!("column {number} of a batch of {}", batch.starts.len())));
        };
        let array = ColumnDecoder { decoder: self, batch, cursor }.node(column)?;
        if array.len() != batch.header.rows {
            let rows = batch.header.rows;
            let got = array.len();
            return Err(Error::invalid(format!("the batch has {rows} rows, the column's field node {got}")));
        }
        Ok(array)
    }
}

/// Decodes the nodes of a column in the order of the format.
struct ColumnDecoder<'a> {
    decoder: &'a Decoder<'a>,
    batch: &'a Batch,
    /// The next entries of the batch's lists.
    cursor: Cursor,
}

impl ColumnDecoder<'_> {
    fn node(&mut self, node: &Node) -> Result<UncheckedArray> {
        let (len, nulls) = self.field_node()?;
        let mut validity = None;
        let roles = buffer_roles(node, self.batch.version);
        let mut buffers = Vec::with_capacity(roles.len());
        for role in roles {
            let enough = match (role, buffers.last()) {
                (BufferRole::Data, Some(offsets)) => last_offset(offsets, len, node),
                _ => role.bytes_for(len),
            };
            let buffer = self.buffer(role, len, node, enough)?;
            match role {
                BufferRole::Validity => validity = self.validity(buffer, len, nulls, node)?,
                _ => buffers.push(buffer),
            }
        }
        if node.layout.variadic {
            self.variadic(&mut buffers, node)?;
        }

        let children = self.children(node, len)?;
        Ok(ArrayParts { data_type: node.data_type().clone(), len, validity, buffers, children }.assemble())
    }

    fn field_node(&mut self) -> Result<(usize, usize)> {
        let nodes = &self.batch.header.nodes;
        let Some(&(len, nulls)) = nodes.get(self.cursor.node) else {
            return Err(count_error("field nodes", self.cursor.node + 1, nodes.len()));
        };
        self.cursor.node += 1;
        let len = length("field node's length", len)?;
        let nulls = length("null count", nulls)?;
        if nulls > len {
            return Err(Error::invalid(format!("a field node of {len} rows can't have {nulls} nulls")));
        }
        Ok((len, nulls))
    }

    fn validity(&self, bits: Buffer, len: usize, nulls: usize, node: &Node) -> Result<Option<(Buffer, usize)>> {
        if nulls == 0 {
            let undeclared = if self.decoder.thorough { count_zero_bits(&bits, len) } else { 0 };
            return match undeclared {
                0 => Ok(None),
                _ => Err(Error::invalid(format!("0 nulls are declared, the validity bitmap has {undeclared}"))),
            };
        }
        if has_legacy_validity(node.data_type()) {
            return Err(Error::unsupported("a union or run-end encoding of metadata version 4 with nulls of its own"));
        }
        let needed = len.div_ceil(8);
        if bits.len() < needed {
            return Err(too_short(BufferRole::Validity, needed, bits.len()));
        }
        Ok(Some((bits, nulls)))
    }

    /// Returns the next buffer, in place if possible. Decompresses at most about `enough` bytes of it, if given.
    fn buffer(&mut self, role: BufferRole, rows: usize, node: &Node, enough: Option<usize>) -> Result<Buffer> {
        let buffers = &self.batch.header.buffers;
        let number = self.cursor.buffer;
        let Some(&(offset, len)) = buffers.get(number) else {
            return Err(count_error("buffers", number + 1, buffers.len()));
        };
        self.cursor.buffer += 1;
        let stored =
            self.stored(offset, len).map_err(|e| e.context(format_args!("buffer {number} ({})", role.name())))?;
        let ready = self.ready(stored, role, node, enough).map_err(|e| e.context(format_args!("buffer {number}")))?;

        // A bitmap may be missing if nothing is null; otherwise `validity` checks its length.
        let needed = if role == BufferRole::Validity { Some(0) } else { role.bytes_for(rows) };
        match needed {
            // An empty array needs no offset, but other readers read the first one.
            Some(0) if matches!(role, BufferRole::Offsets { .. }) => Ok(Buffer::from_vec(vec![0u8; 8])),
            Some(needed) if needed <= ready.len() => Ok(ready),
            Some(needed) => Err(too_short(role, needed, ready.len())),
            None => Err(Error::invalid(format!("{rows} rows of {} can't be addressed", role.name()))),
        }
    }

    /// Returns the bytes of a buffer as stored in the body.
    fn stored(&self, offset: i64, len: i64) -> Result<Buffer> {
        let offset = length("buffer offset", offset)?;
        let len = length("buffer length", len)?;
        let body = self.batch.body;
        if offset.checked_add(len).is_some_and(|end| end <= body.len)
            && let Some(stored) = self.decoder.bytes.fetch_slice(body.offset.saturating_add(offset), len)?
        {
            return Ok(stored);
        }
        let body_len = body.len;
        Err(Error::invalid(format!("offset {offset} and length {len} do not fit the body of {body_len} bytes")))
    }

    /// Decompresses a buffer and converts it to the byte order of this machine.
    fn ready(&self, stored: Buffer, role: BufferRole, node: &Node, enough: Option<usize>) -> Result<Buffer> {
        let plain = match self.batch.header.compression {
            Some(codec) if !stored.is_empty() => self.decompressed(stored, codec, enough, role, node)?,
            _ => stored,
        };
        if self.decoder.schema.big_endian && !plain.is_empty() && role.has_byte_order() {
            self.count_copy(plain.len(), role, node, || "it is big-endian".into())?;
            return Ok(body::little_endian(&plain, role));
        }
        Ok(plain)
    }

    fn decompressed(
        &self,
        stored: Buffer,
        codec: Compression,
        enough: Option<usize>,
        role: BufferRole,
        node: &Node,
    ) -> Result<Buffer> {
        let unpacked = self.decoder.copied.load(Ordering::Relaxed);
        let room = self.decoder.max_unpacked.map_or(u64::MAX, |max| max.saturating_sub(unpacked));
        match body::decompress(&stored, codec, enough, room)? {
            DecompressedBuffer::Stored => Ok(stored.slice(body::LENGTH_PREFIX)),
            DecompressedBuffer::Copied(plain) => {
                self.count_copy(plain.len(), role, node, || format!("it is compressed with {codec:?}"))?;
                Ok(plain)
            }
        }
    }

    /// Adds to the number of copied bytes, or refuses the copy.
    fn count_copy(&self, bytes: usize, role: BufferRole, node: &Node, why: impl Fn() -> String) -> Result<()> {
        if self.decoder.strict {
            let name = node.field.name();
            let role = role.name();
            let message =
                format!("strict: the {role} buffer of field '{name}' can't be mapped without a copy: {}", why());
            return Err(Error::new(ErrorKind::CopyNeeded, message));
        }
        self.decoder.copied.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Appends the data buffers of a column of views.
    fn variadic(&mut self, buffers: &mut Vec<Buffer>, node: &Node) -> Result<()> {
        let counts = &self.batch.header.variadics;
        let Some(&count) = counts.get(self.cursor.variadic) else {
            return Err(count_error("variadic buffer counts", self.cursor.variadic + 1, counts.len()));
        };
        self.cursor.variadic += 1;
        for _ in 0..length("variadic buffer count", count)? {
            buffers.push(self.buffer(BufferRole::Data, 0, node, None)?);
        }
        Ok(())
    }

    fn children(&mut self, node: &Node, len: usize) -> Result<Vec<UncheckedArray>> {
        if let Some((id, values)) = &node.dictionary {
            let dictionary = self.decoder.dictionaries.values(*id)?;
            // A column of nulls needs no dictionary, and some writers write none.
            return Ok(vec![dictionary.unwrap_or_else(|| UncheckedArray::empty(values.data_type()))]);
        }
        let children = node.children.iter().map(|child| self.node(child)).collect::<Result<Vec<_>>>()?;
        check_child_lengths(node.data_type(), len, &children)?;
        Ok(children)
    }
}

/// Returns the number of zeros among the first `len` bits; 0 if there is no bitmap.
pub(crate) fn count_zero_bits(bits: &Buffer, len: usize) -> usize {
    if bits.is_empty() || len.div_ceil(8) > bits.len() {
        return 0;
    }
    len - count_ones(&BooleanBuffer::new(bits.clone(), 0, len))
}

/// Returns the length of the data according to the last of `rows + 1` offsets.
fn last_offset(offsets: &Buffer, rows: usize, node: &Node) -> Option<usize> {
    if rows == 0 {
        return Some(0);
    }
    match node.data_type() {
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let raw = offsets.get(rows.checked_mul(8)?..)?.first_chunk()?;
            usize::try_from(i64::from_le_bytes(*raw)).ok()
        }
        _ => {
            let raw = offsets.get(rows.checked_mul(4)?..)?.first_chunk()?;
            usize::try_from(i32::from_le_bytes(*raw)).ok()
        }
    }
}

/// Checks the lengths of children that follow from the parent's. The children of lists depend on offsets, which are
/// values.
fn check_child_lengths(data_type: &DataType, len: usize, children: &[UncheckedArray]) -> Result<()> {
    let expected = match data_type {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some(len),
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok().and_then(|size| len.checked_mul(size)),
        DataType::RunEndEncoded(..) => children.first().map(UncheckedArray::len),
        _ => return Ok(()),
    };
    match children.iter().find(|child| Some(child.len()) != expected) {
        Some(child) => Err(Error::invalid(format!(
            "a {} of {len} rows has a child of {} rows, expected {}",
            type_name(data_type),
            child.len(),
            expected.map_or("fewer than 2^64".into(), |n| n.to_string())
        ))),
        None => Ok(()),
    }
}

fn too_short(role: BufferRole, needed: usize, got: usize) -> Error {
    Error::invalid(format!("the {} buffer needs {needed} bytes, got {got}", role.name()))
}
