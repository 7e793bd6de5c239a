//! Messages of an Arrow stream as bytes to be sent: what is small together, what is large from where it lies.

use arrow_buffer::Buffer;
use arrowwood::{EncodedMessage, Error, Result, guard};
use bytes::Bytes;

/// Buffers below this are copied next to each other: sending each alone would take longer.
const SMALL: usize = 8 << 10;
/// What bodies and buffers are filled up to.
const ALIGNMENT: usize = 64;

/// A buffer as an owner of bytes.
struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of `messages`, one behind the other.
pub(crate) fn frames(messages: Vec<EncodedMessage>) -> Result<Vec<Bytes>> {
    // Small buffers are read here, and may have been truncated.
    guard(|| {
        let mut frames = Vec::new();
        let mut small = Vec::new();
        for message in messages {
            small.extend(message.head()?);
            for buffer in message.body {
                let len = buffer.len();
                if len < SMALL {
                    small.extend_from_slice(&buffer);
                } else {
                    frames.push(Bytes::from(std::mem::take(&mut small)));
                    frames.push(Bytes::from_owner(Owner(buffer)));
                }
                small.resize(small.len() + (len.next_multiple_of(ALIGNMENT) - len), 0);
            }
        }
        frames.push(Bytes::from(small));
        frames.retain(|frame| !frame.is_empty());
        Ok::<_, Error>(frames)
    })
}
