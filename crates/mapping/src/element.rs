//! Converts numbers to bytes and back.

/// The maximum width of an element in bytes.
pub(crate) const MAX_WIDTH: usize = 16;

/// A fixed-width little-endian number that can be read from, and written to, any address.
pub trait Element: Copy + Send + Sync + 'static {
    /// The bytes of an element: 1 to 16, checked at compile time.
    const WIDTH: usize;
    /// Reads an element from its little-endian bytes; `bytes` is `WIDTH` long.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Writes the element's little-endian bytes; `bytes` is `WIDTH` long.
    fn to_bytes(self, bytes: &mut [u8]);
}

macro_rules! elements {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const WIDTH: usize = size_of::<$type>();
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$type>()];
                raw.copy_from_slice(bytes);
                <$type>::from_le_bytes(raw)
            }
            #[inline]
            fn to_bytes(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
elements!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64);
