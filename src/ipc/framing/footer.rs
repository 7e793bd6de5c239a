//! The footer of an IPC file: the schema and the positions of the batches.

use super::flat::FlatTable;
use super::message::{MessageFrame, NextMessage, Window, find};
use super::schema::IpcSchema;
use crate::array::Bytes;
use crate::error::{Error, Result};

pub(in crate::ipc) const MAGIC: &[u8; 6] = b"ARROW1";

/// Blocks of an IPC file, as its footer lists them.
#[derive(Debug)]
pub(in crate::ipc) struct Footer {
    pub(in crate::ipc) dictionaries: FooterBlocks,
    pub(in crate::ipc) batches: FooterBlocks,
    /// The content of [`ZONES`].
    pub(in crate::ipc) zones: Option<String>,
}

/// The key of a dense segment's footer metadata that holds the zones of its blocks.
pub(crate) const ZONES: &str = "arrowwood.zones";

/// The blocks of one kind, 24 bytes each, as in the footer.
#[derive(Debug)]
pub(in crate::ipc) struct FooterBlocks(Vec<[u8; 24]>);

/// The schema and the blocks of a file's footer, which is at the file's end: its flatbuffer, its length as i32, the
/// magic.
pub(in crate::ipc) fn read_footer(bytes: &Bytes) -> Result<(IpcSchema, Footer)> {
    let size = bytes.len();
    let cut = || {
        Error::invalid(
            "truncated: an Arrow IPC file ends with its footer and 'ARROW1', this one does not; it may still be being written, or cut off",
        )
    };
    let tail_len = size.min(4096);
    let mut tail = vec![0; tail_len];
    bytes.read_at(size - tail_len, &mut tail)?;
    let Some((rest, magic)) = tail.split_last_chunk::<6>() else { return Err(cut()) };
    let Some((rest, len)) = rest.split_last_chunk::<4>() else { return Err(cut()) };
    if magic != MAGIC || size < 8 + 10 {
        return Err(cut());
    }
    let len = i32::from_le_bytes(*len);
    let start = usize::try_from(len).ok().and_then(|len| (size - 10).checked_sub(len)).filter(|&start| start >= 8);
    let Some(start) = start else {
        return Err(Error::invalid(format!("the footer has a length of {len} bytes in a file of {size}")));
    };
    let len = size - 10 - start;
    let metadata = match rest.len().checked_sub(len) {
        Some(at) => rest[at..].to_vec(),
        None => {
            let mut metadata = vec![0; len];
            bytes.read_at(start, &mut metadata)?;
            metadata
        }
    };
    let table = FlatTable::root(&metadata)?;
    let schema = table.table(1)?.ok_or_else(|| Error::invalid("the footer has no schema"))?;
    let schema = IpcSchema::parse(schema, metadata.len())?;
    let dictionaries = FooterBlocks::parse(table, 2)?;
    let batches = FooterBlocks::parse(table, 3)?;
    Ok((schema, Footer { dictionaries, batches, zones: zones_of(table) }))
}

/// The zones in the footer. Other metadata there, readable or not, is ignored.
fn zones_of(footer: FlatTable<'_>) -> Option<String> {
    let mut pairs = footer.tables(4).ok()?.filter_map(|pair| pair.ok());
    let found = pairs.find(|pair| matches!(pair.string(0), Ok(Some(ZONES))))?;
    found.string(1).ok()?.map(Into::into)
}

/// Returns the first message of a file. Most writers pad the magic to 8 bytes, arrow-rs to 64.
pub(in crate::ipc) fn behind_magic(bytes: &Bytes, window: &mut Window) -> Result<Option<MessageFrame>> {
    for offset in (8..=64).step_by(8) {
        if let NextMessage::Message(frame) = find(bytes, window, offset)? {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

impl Footer {
    /// Returns the schema's message and those of the blocks. Arbitrary bytes may lie between them.
    pub(in crate::ipc) fn frames(&self, bytes: &Bytes, window: &mut Window) -> Result<Vec<MessageFrame>> {
        let mut frames = Vec::with_capacity(1 + self.dictionaries.len() + self.batches.len());
        frames.extend(behind_magic(bytes, window)?);
        for blocks in [&self.dictionaries, &self.batches] {
            for number in 0..blocks.len() {
                frames.push(blocks.frame(number, bytes, window)?);
            }
        }
        frames.sort_by_key(|frame| frame.offset);
        frames.dedup();
        Ok(frames)
    }
}

impl FooterBlocks {
    pub(in crate::ipc) fn parse(footer: FlatTable<'_>, field: usize) -> Result<FooterBlocks> {
        let bytes = footer.vector(field, 24)?.map_or(&[][..], |blocks| blocks.bytes());
        Ok(FooterBlocks(bytes.as_chunks().0.to_vec()))
    }

    pub(in crate::ipc) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns offset, length of prefix and metadata, and length of the body, as in the footer.
    pub(in crate::ipc) fn place(&self, number: usize) -> [i64; 3] {
        self.0.get(number).map_or([0; 3], |block| {
            let (words, _) = block.as_chunks::<8>();
            // The length in the middle is an i32, followed by padding.
            let [offset, metadata, body] = [0, 1, 2].map(|word| i64::from_le_bytes(words[word]));
            [offset, i64::from(metadata as i32), body]
        })
    }

    /// A block is the message's offset, the length of prefix and metadata, and the length of the body (File.fbs).
    pub(in crate::ipc) fn frame(&self, number: usize, bytes: &Bytes, window: &mut Window) -> Result<MessageFrame> {
        let [offset, metadata_len, _] = self.place(number);
        let outside = || {
            let size = bytes.len();
            Error::invalid(format!(
                "block {number} of the footer: offset {offset} and metadata length {metadata_len} fit no message in a \
                 file of {size} bytes"
            ))
        };
        let (Ok(offset), Ok(metadata_len)) = (usize::try_from(offset), usize::try_from(metadata_len)) else {
            return Err(outside());
        };
        let body = offset.checked_add(metadata_len).filter(|&body| body <= bytes.len()).ok_or_else(outside)?;
        match find(bytes, window, offset)? {
            // The block has the start of the body; the message's own prefix may leave out some padding before it. More
            // than that is a small message that claims a large part of the file.
            NextMessage::Message(frame) if frame.body() <= body && body - frame.body() <= 128 => {
                Ok(MessageFrame { metadata_len: body - frame.metadata, ..frame })
            }
            _ => Err(outside()),
        }
    }
}
