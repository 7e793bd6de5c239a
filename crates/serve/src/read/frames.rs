//! Frames messages of an Arrow stream as bytes to send. Small parts are copied together, large parts are sent in place.

use arrow_buffer::Buffer;
use arrowwood::{EncodedMessage, Error, Result, StreamEncoder, guard};
use bytes::Bytes;

/// The minimum size in bytes of a buffer that is sent in place. Smaller ones are copied together: sending each
/// separately would take longer.
const MIN_SEPARATE_BYTES: usize = 8 << 10;
/// The maximum number of bytes that are sent at once: HTTP/2 refuses more than 31 bits can count.
const MAX_FRAME_BYTES: usize = 1 << 30;
/// The alignment of bodies and buffers.
const ALIGNMENT: usize = 64;

/// A buffer as an owner of bytes.
struct BufferOwner(Buffer);

impl AsRef<[u8]> for BufferOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The framing of a stream's messages. A protocol that sends rows can have one of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    encode_head: fn(&EncodedMessage) -> Result<Vec<u8>>,
    end: &'static [u8],
}

impl Framing {
    /// The IPC streaming format.
    pub const STREAM: Framing = Framing::new(EncodedMessage::head, &StreamEncoder::END);

    /// Creates a framing with bytes before the body of each message, and `end` after the last message.
    pub const fn new(encode_head: fn(&EncodedMessage) -> Result<Vec<u8>>, end: &'static [u8]) -> Framing {
        Framing { encode_head, end }
    }

    /// Returns the bytes before the body of a message.
    ///
    /// # Errors
    /// `Unsupported` for messages too long for the framing.
    pub fn head(self, message: &EncodedMessage) -> Result<Vec<u8>> {
        (self.encode_head)(message)
    }

    /// Returns the bytes after the last message.
    pub fn end(self) -> &'static [u8] {
        self.end
    }
}

/// Returns the bytes of `messages`, concatenated.
pub(crate) fn frames(messages: Vec<EncodedMessage>, framing: Framing) -> Result<Vec<Bytes>> {
    // Small buffers are read here, and may have been truncated.
    guard(|| {
        let mut frames = Vec::new();
        let mut small = Vec::new();
        for message in messages {
            small.extend(framing.head(&message)?);
            for buffer in message.body {
                let len = buffer.len();
                if len < MIN_SEPARATE_BYTES {
                    small.extend_from_slice(&buffer);
                } else {
                    frames.push(Bytes::from(std::mem::take(&mut small)));
                    frames.extend(chunks(Bytes::from_owner(BufferOwner(buffer)), MAX_FRAME_BYTES));
                }
                small.resize(small.len() + (len.next_multiple_of(ALIGNMENT) - len), 0);
            }
        }
        frames.push(Bytes::from(small));
        frames.retain(|frame| !frame.is_empty());
        Ok::<_, Error>(frames)
    })
}

/// Splits bytes into chunks of at most `max_len`, in place.
fn chunks(mut bytes: Bytes, max_len: usize) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let chunk = bytes.split_to(bytes.len().min(max_len));
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buffers of 2 GiB were never sent over HTTP/2.
    #[test]
    fn large_buffers_are_sent_in_chunks() {
        let whole = Bytes::from((0..=255).collect::<Vec<u8>>());
        for most in [1, 7, 128, 255, 256, 1000] {
            let found: Vec<Bytes> = chunks(whole.clone(), most).collect();
            assert_eq!(found.len(), 256_usize.div_ceil(most));
            assert!(found.iter().all(|chunk| chunk.len() <= most));
            assert_eq!(found.concat(), whole);
            assert_eq!(found[0].as_ptr(), whole.as_ptr());
        }
        assert_eq!(chunks(Bytes::new(), 7).count(), 0);
        assert!(MAX_FRAME_BYTES <= i32::MAX as usize);
    }
}
