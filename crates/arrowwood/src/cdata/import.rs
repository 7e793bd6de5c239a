//! Imports schemas and arrays that another library passes through the Arrow C data interface. Counts, lengths and
//! offsets are checked against the types, and pointers for null. Values are left unchecked.
//!
//! A dangling pointer, or a buffer that is shorter than its array says, can't be detected: the interface has no lengths
//! of buffers.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::ffi::Flags;
use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION,
};
use arrow_schema::{DataType, Field};

use crate::array::{UncheckedArray, normalize_offsets, require_little_endian};
use crate::error::{Error, Result};
use crate::types::layout::children;
use crate::types::{BufferRole, layout, type_name};

/// The maximum nesting depth of types, as in a file.
const MAX_DEPTH: usize = 64;
/// The maximum number of metadata entries, children and buffers that a struct may declare.
const MAX_COUNT: i64 = 1 << 24;
/// The maximum length of a key or value of metadata.
const MAX_TEXT: i32 = 1 << 30;
/// The key of the metadata that has the name of an extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// `ArrowSchema` of the C data interface.
#[repr(C)]
struct RawSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const RawSchema,
    dictionary: *const RawSchema,
    release: *const c_void,
    private_data: *const c_void,
}

/// `ArrowArray` of the C data interface.
#[repr(C)]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const u8,
    children: *const *const RawArray,
    dictionary: *const RawArray,
    release: *const c_void,
    private_data: *const c_void,
}

const _: () = assert!(size_of::<RawSchema>() == size_of::<FFI_ArrowSchema>());
const _: () = assert!(size_of::<RawArray>() == size_of::<FFI_ArrowArray>());

fn import_error(what: &str, why: impl std::fmt::Display) -> Error {
    Error::invalid_argument(format!("importing an Arrow C {what}: {why}"))
}

fn schema_error(why: impl std::fmt::Display) -> Error {
    import_error("schema", why)
}

pub(super) fn taken(what: &str) -> Error {
    import_error(what, "it was taken before; export it anew")
}

// ---- schemas ----

/// Returns the field that `schema` describes. Metadata that is not UTF-8 is left out.
///
/// # Errors
/// `InvalidArgument` for a schema that was released, or that breaks the rules of the interface; `Unsupported` for a
/// type that we don't have, and for a dictionary whose values have an extension type, which would be lost.
pub(super) fn field_of(schema: &FFI_ArrowSchema) -> Result<Field> {
    // SAFETY: both are the struct of the interface, and as large.
    let raw = unsafe { &*std::ptr::from_ref(schema).cast::<RawSchema>() };
    // Copied, since arrow-rs reads names, formats and metadata without checks, and panics if they are wrong.
    let copy = copy_of(raw, 0)?;
    let field = Field::try_from(&copy).map_err(schema_error)?;
    check_type(field.data_type())?;
    Ok(field)
}

fn copy_of(raw: &RawSchema, depth: usize) -> Result<FFI_ArrowSchema> {
    if depth > MAX_DEPTH {
        return Err(schema_error(format_args!("types are nested deeper than {MAX_DEPTH} levels")));
    }
    if raw.release.is_null() || raw.format.is_null() {
        return Err(taken("schema"));
    }
    let format = text_of(raw.format).ok_or_else(|| schema_error("the format is not UTF-8"))?;
    let name = if raw.name.is_null() { Some("") } else { text_of(raw.name) };
    let name = name.ok_or_else(|| schema_error("a name is not UTF-8"))?;
    let below = children_of(raw.n_children, raw.children, || taken("schema"))?;
    let count = below.len();
    if count_of(format).is_some_and(|expected| expected != count) {
        return Err(schema_error(format_args!("the format {format:?} with {count} children")));
    }
    let below = below.into_iter().map(|child| copy_of(child, depth + 1));
    let below = below.collect::<Result<Vec<_>>>()?;
    // SAFETY: null, or a struct that lives as long as this one (Arrow C Data Interface, *Structure definitions*).
    let dictionary = unsafe { raw.dictionary.as_ref() };
    let dictionary = dictionary.map(|values| copy_of(values, depth + 1)).transpose()?;
    if let Some(extension) = dictionary.as_ref().and_then(|values| values.metadata().ok()?.remove(EXTENSION)) {
        return Err(Error::unsupported(format!(
            "importing column '{}': the values of its dictionary are of the extension type '{extension}', which would \
             be lost; decode the column first",
            name.escape_debug()
        )));
    }
    let metadata = metadata_of(raw.metadata)?;
    FFI_ArrowSchema::try_new(format, below, dictionary)
        .and_then(|schema| schema.with_name(name)?.with_flags(Flags::from_bits_truncate(raw.flags)))
        .and_then(|schema| schema.with_metadata(metadata))
        .map_err(schema_error)
}

/// The format of structs.
const STRUCT: &str = "+s";
/// The format of run-end encoded arrays, whose children are the run ends and the values.
const RUN_END_ENCODED: &str = "+r";
/// The beginning of the formats of unions.
const UNION: &str = "+u";
/// The beginning of the formats of all nested types.
const NESTED: char = '+';

/// Returns the number of children of a format; `None` if it may have any number.
fn count_of(format: &str) -> Option<usize> {
    match format {
        STRUCT => None,
        RUN_END_ENCODED => Some(2),
        _ if format.starts_with(UNION) => None,
        _ => Some(usize::from(format.starts_with(NESTED))),
    }
}

/// Returns the text that `start` points to; `None` if it is not UTF-8.
fn text_of<'a>(start: *const c_char) -> Option<&'a str> {
    // SAFETY: not null, so text that ends in NUL and lives as long as its schema (*Structure definitions*), of which
    // the callers have a reference.
    unsafe { CStr::from_ptr(start) }.to_str().ok()
}

/// Returns the `count` structs that `start` points to; `missing` makes the error for a null pointer to a struct.
fn children_of<'a, T>(count: i64, start: *const *const T, missing: impl Fn() -> Error) -> Result<Vec<&'a T>> {
    match usize::try_from(count) {
        Ok(0) => Ok(Vec::new()),
        Ok(len) if count <= MAX_COUNT && !start.is_null() => {
            // SAFETY: pointers to as many structs, each of which lives as long as the one that has them, of which the
            // callers have a reference (*Structure definitions*).
            let all = unsafe { slice::from_raw_parts(start, len) };
            // SAFETY: as above, or null.
            all.iter().map(|&child| unsafe { child.as_ref() }.ok_or_else(&missing)).collect()
        }
        _ => Err(import_error("struct", format_args!("{count} children"))),
    }
}

/// Reads the metadata at `start`, and leaves out entries that are not UTF-8.
fn metadata_of(start: *const c_char) -> Result<Vec<(String, String)>> {
    if start.is_null() {
        return Ok(Vec::new());
    }
    let mut metadata = MetadataReader(start.cast());
    let count = metadata.number(MAX_COUNT as i32)?;
    let mut all = Vec::new();
    for _ in 0..count {
        let key = metadata.text()?;
        let value = metadata.text()?;
        all.extend(key.zip(value));
    }
    Ok(all)
}

/// The rest of a schema's metadata: a number of pairs, and each key and value behind its length
/// (*ArrowSchema.metadata*).
struct MetadataReader(*const u8);

impl MetadataReader {
    fn number(&mut self, max: i32) -> Result<usize> {
        const WIDTH: usize = size_of::<i32>();
        // SAFETY: called where the metadata has a number, as its counts say, which need not be aligned.
        let number = i32::from_ne_bytes(unsafe { self.0.cast::<[u8; WIDTH]>().read_unaligned() });
        self.skip(WIDTH);
        let len = usize::try_from(number).ok().filter(|_| number <= max);
        len.ok_or_else(|| schema_error(format_args!("metadata with a length of {number}")))
    }

    /// Reads the next text; returns `None` if it is not UTF-8.
    fn text(&mut self) -> Result<Option<String>> {
        let len = self.number(MAX_TEXT)?;
        // SAFETY: as many bytes follow as the number before says.
        let bytes = unsafe { slice::from_raw_parts(self.0, len) }.to_vec();
        self.skip(len);
        Ok(String::from_utf8(bytes).ok())
    }

    fn skip(&mut self, len: usize) {
        // SAFETY: behind a part of the metadata is another, or its end.
        self.0 = unsafe { self.0.add(len) };
    }
}

/// Checks the properties of a type that arrow-rs relies on.
fn check_type(data_type: &DataType) -> Result<()> {
    use DataType::*;
    let is_right = match data_type {
        Decimal32(precision, _) => (1..=DECIMAL32_MAX_PRECISION).contains(precision),
        Decimal64(precision, _) => (1..=DECIMAL64_MAX_PRECISION).contains(precision),
        Decimal128(precision, _) => (1..=DECIMAL128_MAX_PRECISION).contains(precision),
        Decimal256(precision, _) => (1..=DECIMAL256_MAX_PRECISION).contains(precision),
        FixedSizeBinary(size) | FixedSizeList(_, size) => *size >= 0,
        Map(entries, _) => matches!(entries.data_type(), Struct(fields) if fields.len() == 2),
        RunEndEncoded(run_ends, _) => matches!(run_ends.data_type(), Int16 | Int32 | Int64) && !run_ends.is_nullable(),
        Dictionary(keys, _) => keys.is_integer(),
        _ => true,
    };
    if !is_right {
        return Err(schema_error(format_args!("there is no type {}", type_name(data_type))));
    }
    if let Dictionary(_, values) = data_type {
        check_type(values)?;
    }
    children(data_type).into_iter().try_for_each(|child| check_type(child.data_type()))
}

// ---- arrays ----

fn array_error(why: impl std::fmt::Display) -> Error {
    import_error("array", why)
}

/// Returns the array as an array of type `data_type` with unchecked values. Buffers are not copied; they are released
/// when the last reference to the returned array is dropped.
///
/// # Errors
/// `InvalidArgument` for an array that was released, or can't be of that type.
///
/// # Safety
/// The pointers of the array, and of its children, must be those of the C data interface for this type: each leads to
/// what the array says is there, and does so until it is released.
pub(super) unsafe fn array_of(array: FFI_ArrowArray, data_type: &DataType) -> Result<UncheckedArray> {
    require_little_endian("importing arrays")?;
    let owner = Arc::new(array);
    let raw = Arc::as_ptr(&owner).cast::<RawArray>();
    // SAFETY: the struct of the interface, which the owner keeps.
    let imported = read_array(unsafe { &*raw }, data_type, &owner)?;
    normalize_offsets(&imported).map(UncheckedArray::from).map_err(|e| e.context("importing an Arrow C array"))
}

fn read_array(raw: &RawArray, data_type: &DataType, owner: &Arc<FFI_ArrowArray>) -> Result<ArrayData> {
    let context = |e: Error| e.context(format_args!("{} of {} rows", type_name(data_type), raw.length));
    if raw.release.is_null() {
        return Err(taken("array"));
    }
    let rows = RowRange::parse(raw).map_err(context)?;
    let kinds = children(data_type);
    let below = children_of(raw.n_children, raw.children, || taken("array"))?;
    if below.len() != kinds.len() {
        return Err(context(array_error(format_args!("{} children, expected {}", below.len(), kinds.len()))));
    }
    let below = below.into_iter().zip(kinds).map(|(child, field)| read_array(child, field.data_type(), owner));
    let mut below = below.collect::<Result<Vec<_>>>()?;
    // SAFETY: null, or a struct that lives as long as this one.
    match (data_type, unsafe { raw.dictionary.as_ref() }) {
        (DataType::Dictionary(_, values), Some(dictionary)) => below.push(read_array(dictionary, values, owner)?),
        (DataType::Dictionary(..), None) => return Err(context(array_error("it has no dictionary"))),
        (_, Some(_)) => return Err(context(array_error("it has a dictionary"))),
        (_, None) => (),
    }
    let (nulls, buffers) = Buffers { raw, rows, owner }.read(data_type).map_err(context)?;
    let builder = ArrayDataBuilder::new(data_type.clone()).len(rows.len).offset(rows.offset).nulls(nulls);
    // SAFETY: the values are left unchecked, as an `UncheckedArray` permits: the caller makes one of it.
    Ok(unsafe { builder.buffers(buffers).child_data(below).build_unchecked() })
}

/// The null count of an array whose nulls were not counted.
const UNKNOWN_NULL_COUNT: i64 = -1;

/// The rows of an array.
#[derive(Clone, Copy)]
struct RowRange {
    offset: usize,
    len: usize,
    /// The declared number of nulls, if there is one.
    nulls: Option<usize>,
}

impl RowRange {
    fn parse(raw: &RawArray) -> Result<RowRange> {
        let len = row_count("a length", raw.length)?;
        // Buffers without rows may be missing, whatever the offset is.
        let offset = if len == 0 { 0 } else { row_count("an offset", raw.offset)? };
        let nulls = if raw.null_count == UNKNOWN_NULL_COUNT {
            None
        } else {
            Some(row_count("a count of nulls", raw.null_count)?)
        };
        if offset.checked_add(len).is_none_or(|end| isize::try_from(end).is_err()) {
            return Err(array_error(format_args!("an offset of {offset} rows")));
        }
        if nulls.is_some_and(|nulls| nulls > len) {
            return Err(array_error(format_args!("{} nulls", raw.null_count)));
        }
        Ok(RowRange { offset, len, nulls })
    }

    fn end(self) -> usize {
        self.offset + self.len
    }
}

fn row_count(what: &str, count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| array_error(format_args!("{what} of {count} rows")))
}

/// The buffers of one array.
struct Buffers<'a> {
    raw: &'a RawArray,
    rows: RowRange,
    owner: &'a Arc<FFI_ArrowArray>,
}

impl Buffers<'_> {
    fn read(&self, data_type: &DataType) -> Result<(Option<NullBuffer>, Vec<Buffer>)> {
        if *data_type == DataType::Null {
            // Some libraries have a bitmap for it.
            return Ok((None, Vec::new()));
        }
        let layout = layout(data_type);
        let roles: Vec<BufferRole> = layout.roles().collect();
        let places = self.places()?;
        // The lengths of variadic buffers are in another one behind them.
        let fixed = roles.len() + usize::from(layout.variadic);
        if places.len() < fixed || places.len() > fixed && !layout.variadic {
            return Err(array_error(format_args!("{} buffers, expected {fixed}", places.len())));
        }
        let mut nulls = None;
        let mut buffers: Vec<Buffer> = Vec::with_capacity(places.len());
        for (&role, &place) in roles.iter().zip(places) {
            let len = match role {
                BufferRole::Data => buffers.last().map_or(Ok(0), |offsets| self.last_offset(offsets))?,
                role => role.bytes_for(self.rows.end()).ok_or_else(|| array_error("more bytes than can be counted"))?,
            };
            if let (BufferRole::Offsets { width }, 0) = (role, self.rows.end()) {
                // Without rows it may be missing, and others read the first one all the same.
                buffers.push(Buffer::from_vec(vec![0_i64]).slice_with_length(0, width));
            } else if role != BufferRole::Validity {
                buffers.push(self.buffer(place, len, role.name())?);
            } else if self.rows.nulls != Some(0) && !(place.is_null() && self.rows.nulls.is_none()) {
                nulls = Some(self.nulls(self.buffer(place, len, role.name())?));
            }
        }
        if let (true, Some((&lens, data))) = (layout.variadic, places[roles.len()..].split_last()) {
            const WIDTH: usize = size_of::<i64>();
            let lens = self.buffer(lens, WIDTH * data.len(), "lengths")?;
            for (&place, len) in data.iter().zip(lens.as_chunks::<WIDTH>().0) {
                let len = i64::from_ne_bytes(*len);
                let len = usize::try_from(len).map_err(|_| array_error(format_args!("a buffer of {len} bytes")))?;
                buffers.push(self.buffer(place, len, "data")?);
            }
        }
        Ok((nulls, buffers))
    }

    /// Returns the addresses of the buffers.
    fn places(&self) -> Result<&[*const u8]> {
        let count = self.raw.n_buffers;
        match usize::try_from(count) {
            Ok(0) => Ok(&[]),
            // SAFETY: pointers to as many buffers, which live as long as the struct (*ArrowArray.buffers*).
            Ok(len) if count <= MAX_COUNT && !self.raw.buffers.is_null() => unsafe {
                Ok(slice::from_raw_parts(self.raw.buffers, len))
            },
            _ => Err(array_error(format_args!("{count} buffers"))),
        }
    }

    fn buffer(&self, place: *const u8, len: usize, name: &str) -> Result<Buffer> {
        if len == 0 {
            return Ok(Buffer::default());
        }
        let start = NonNull::new(place.cast_mut()).filter(|_| isize::try_from(len).is_ok());
        let start = start.ok_or_else(|| array_error(format_args!("no buffer of {len} bytes of {name}")))?;
        // SAFETY: a buffer of this type has as many bytes, and lives until the array is released, which the owner does
        // (*Buffers*; that pointers are right is promised to `array_of`).
        Ok(unsafe { Buffer::from_custom_allocation(start, len, self.owner.clone()) })
    }

    fn nulls(&self, bits: Buffer) -> NullBuffer {
        let bits = BooleanBuffer::new(bits, self.rows.offset, self.rows.len);
        match self.rows.nulls {
            // SAFETY: the count is left unchecked, like other values.
            Some(count) => unsafe { NullBuffer::new_unchecked(bits, count) },
            None => NullBuffer::new(bits),
        }
    }

    /// Returns the last of the offsets, which is the length of the data that they point to.
    fn last_offset(&self, offsets: &Buffer) -> Result<usize> {
        let width = offsets.len() / (self.rows.end() + 1);
        let last = &offsets[offsets.len() - width..];
        let last = match (last.first_chunk::<8>(), last.first_chunk::<4>()) {
            (Some(last), _) => i64::from_ne_bytes(*last),
            (None, Some(last)) => i32::from_ne_bytes(*last).into(),
            // No rows have no offsets.
            (None, None) => 0,
        };
        usize::try_from(last).map_err(|_| array_error(format_args!("a last offset of {last}")))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::dataset::Dataset;
    use crate::error::ErrorKind;

    thread_local! {
        /// The number of schemas and arrays that were released.
        static RELEASED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C" fn release_schema(_: *mut FFI_ArrowSchema) {
        RELEASED.set(RELEASED.get() + 1);
    }

    unsafe extern "C" fn release_array(_: *mut FFI_ArrowArray) {
        RELEASED.set(RELEASED.get() + 1);
    }

    /// A schema and an array as a C library exports them. Their memory is leaked.
    struct Exported {
        schema: &'static mut RawSchema,
        array: &'static mut RawArray,
    }

    fn leak<T>(value: T) -> &'static mut T {
        Box::leak(Box::new(value))
    }

    fn text(text: &[u8]) -> *const c_char {
        leak([text, &[0]].concat()).as_ptr().cast()
    }

    fn numbers<T: Copy + 'static>(numbers: &[T]) -> *const u8 {
        leak(numbers.to_vec()).as_ptr().cast()
    }

    fn export(format: &str, length: i64, buffers: &[*const u8], children: Vec<Exported>) -> Exported {
        let null = std::ptr::null();
        let mut child_schemas: Vec<*const RawSchema> = Vec::new();
        let mut child_arrays: Vec<*const RawArray> = Vec::new();
        for child in children {
            child_schemas.push(child.schema);
            child_arrays.push(child.array);
        }
        let n_children = child_arrays.len() as i64;
        let schema = RawSchema {
            format: text(format.as_bytes()),
            name: text(b"x"),
            metadata: std::ptr::null(),
            flags: 2,
            n_children,
            children: leak(child_schemas).as_ptr(),
            dictionary: std::ptr::null(),
            release: release_schema as *const c_void,
            private_data: null,
        };
        let array = RawArray {
            length,
            null_count: 0,
            offset: 0,
            n_buffers: buffers.len() as i64,
            n_children,
            buffers: leak(buffers.to_vec()).as_ptr(),
            children: leak(child_arrays).as_ptr(),
            dictionary: std::ptr::null(),
            release: release_array as *const c_void,
            private_data: null,
        };
        Exported { schema: leak(schema), array: leak(array) }
    }

    const NONE: *const u8 = std::ptr::null();

    fn ints() -> Exported {
        export("l", 8, &[NONE, numbers(&[1_i64, 2, 3, 4, 5, 6, 7, 8])], vec![])
    }

    fn texts(offsets: [i32; 9]) -> Exported {
        export("u", 8, &[NONE, numbers(&offsets), text(b"abcdefgh").cast()], vec![])
    }

    fn with(exported: Exported, change: impl FnOnce(&mut RawSchema, &mut RawArray)) -> Exported {
        change(exported.schema, exported.array);
        exported
    }

    impl Exported {
        fn import(self) -> Result<Dataset> {
            let schema: *const RawSchema = self.schema;
            let array: *const RawArray = self.array;
            // SAFETY: `RawSchema` has the layout of `FFI_ArrowSchema`, and is read once.
            let schema = unsafe { schema.cast::<FFI_ArrowSchema>().read() };
            // SAFETY: `RawArray` has the layout of `FFI_ArrowArray`, and is read once.
            let array = unsafe { array.cast::<FFI_ArrowArray>().read() };
            // SAFETY: all pointers of the tests are null, or point to as many values as the structs say.
            unsafe { Dataset::import_array(array, &schema) }
        }
    }

    /// The offsets of eight texts of one byte each.
    const OFFSETS: [i32; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// Returns schemas and arrays that contradict their type, and a part of the expected error message.
    fn invalid_exports() -> Vec<(Exported, &'static str)> {
        let nested = |format: &str, buffers: &[*const u8]| export(format, 2, buffers, vec![ints()]);
        let array = |change: fn(&mut RawArray)| with(ints(), |_, array| change(array));
        let schema = |change: fn(&mut RawSchema)| with(ints(), |schema, _| change(schema));
        let dictionary = |keys: &str, change: fn(&mut RawSchema, &mut RawArray)| {
            let words = texts(OFFSETS);
            let exported = export(keys, 2, &[NONE, numbers(&[0_i64, 1])], vec![]);
            with(exported, |schema, array| {
                (schema.dictionary, array.dictionary) = (words.schema, words.array);
                change(schema, array);
            })
        };
        let uuids = |schema: &mut RawSchema| {
            let pair = |text: &[u8]| [&(text.len() as i32).to_ne_bytes(), text].concat();
            let metadata = [&1_i32.to_ne_bytes()[..], &pair(EXTENSION.as_bytes()), &pair(b"arrow.uuid")].concat();
            let values = export("w:16", 0, &[NONE, NONE], vec![]).schema;
            values.metadata = leak(metadata).as_ptr().cast();
            schema.dictionary = values;
        };
        vec![
            (array(|array| array.n_buffers = 0), "0 buffers, expected 2"),
            (array(|array| array.n_buffers = 1), "1 buffers, expected 2"),
            (array(|array| array.n_buffers = i64::MAX), "9223372036854775807 buffers"),
            (array(|array| array.n_buffers = -1), "-1 buffers"),
            (array(|array| array.buffers = std::ptr::null()), "2 buffers"),
            (export("l", 8, &[NONE, NONE], vec![]), "no buffer of 64 bytes of values"),
            (export("l", 8, &[NONE, numbers(&[0; 8]), NONE], vec![]), "3 buffers, expected 2"),
            (array(|array| array.length = -8), "a length of -8 rows"),
            (array(|array| array.offset = -1), "an offset of -1 rows"),
            (array(|array| array.offset = i64::MIN), "an offset of -9223372036854775808 rows"),
            (array(|array| array.length = i64::MAX), "more bytes than can be counted"),
            (array(|array| array.length = (1 << 61) + 1), "more bytes than can be counted"),
            (array(|array| array.offset = i64::MAX), "an offset of 9223372036854775807 rows"),
            (array(|array| array.null_count = 1000), "1000 nulls"),
            (array(|array| array.null_count = -7), "a count of nulls of -7 rows"),
            (array(|array| array.null_count = 3), "no buffer of 1 bytes of validity"),
            (array(|array| array.release = std::ptr::null()), "taken before"),
            (array(|array| (array.n_children, array.children) = (1, std::ptr::null())), "1 children"),
            (schema(|schema| schema.release = std::ptr::null()), "taken before"),
            (schema(|schema| schema.format = std::ptr::null()), "taken before"),
            (schema(|schema| schema.format = text(b"")), "schema"),
            (schema(|schema| schema.format = text(b"\xff\xfeqq:")), "the format is not UTF-8"),
            (schema(|schema| schema.format = text(b"d:99,-200,7")), "decimal"),
            (schema(|schema| schema.format = text(b"d:99,2")), "there is no type decimal128(99, 2)"),
            (schema(|schema| schema.format = text(b"w:-1")), "there is no type"),
            (schema(|schema| schema.format = text(b"+l")), "the format \"+l\" with 0 children"),
            (schema(|schema| schema.format = text(b"+r")), "the format \"+r\" with 0 children"),
            (schema(|schema| schema.format = text(b"+ud:0,1,300")), "type id"),
            (schema(|schema| schema.name = text(b"\xff\xfe")), "a name is not UTF-8"),
            (schema(|schema| schema.metadata = text(b"\xff\xff\xff\xff")), "metadata with a length of -1"),
            (schema(|schema| schema.n_children = -1), "-1 children"),
            (schema(|schema| schema.n_children = i64::MAX), "9223372036854775807 children"),
            (with(nested("+s", &[NONE]), |_, array| array.length = 1_000_000), "a child too short"),
            (with(nested("+s", &[NONE]), |_, array| array.n_children = 0), "0 children, expected 1"),
            (with(nested("+s", &[NONE]), |_, array| array.children = std::ptr::null()), "1 children"),
            (with(nested("+s", &[NONE]), |_, array| array.children = leak(NONE.cast())), "taken before"),
            (with(nested("+s", &[NONE]), |schema, _| schema.children = leak(NONE.cast())), "taken before"),
            (with(nested("+s", &[numbers(&[1_u8])]), |_, array| array.null_count = 1), "with null rows"),
            (nested("+w:-3", &[NONE]), "there is no type"),
            (nested("+m", &[NONE, numbers(&OFFSETS)]), "there is no type map"),
            (texts([0, 1, 2, 3, 4, 5, 6, 7, -8]), "a last offset of -8"),
            (export("u", 8, &[NONE, NONE, text(b"abcdefgh").cast()], vec![]), "no buffer of 36 bytes of offsets"),
            (export("u", 8, &[NONE, numbers(&OFFSETS), NONE], vec![]), "no buffer of 8 bytes of data"),
            (export("vu", 0, &[NONE, NONE, NONE, numbers(&[-1_i64])], vec![]), "a buffer of -1 bytes"),
            (dictionary("l", |_, array| array.dictionary = std::ptr::null()), "it has no dictionary"),
            (dictionary("l", |schema, _| schema.dictionary = std::ptr::null()), "it has a dictionary"),
            (dictionary("g", |_, _| ()), "there is no type dictionary"),
            (with(ints(), |schema, _| uuids(schema)), "'arrow.uuid', which would be lost"),
            (
                with(ints(), |schema, _| {
                    let child = (0..100_000).fold(ints(), |child, _| export("+l", 0, &[NONE, NONE], vec![child]));
                    (schema.format, schema.n_children) = (text(b"+l"), 1);
                    schema.children = leak(std::ptr::from_ref(child.schema));
                }),
                "nested deeper than 64 levels",
            ),
        ]
    }

    /// Half of these crashed, or panicked in arrow-rs. A length of -1 was 2⁶⁴ - 1 rows, and an offset of -1 led to
    /// wrong sums.
    #[test]
    fn import_rejects_impossible_arrays() {
        for (number, (exported, message)) in invalid_exports().into_iter().enumerate() {
            let released_before = RELEASED.get();
            let e = exported.import().expect_err(message);
            let kinds = [ErrorKind::InvalidArgument, ErrorKind::Unsupported];
            assert!(kinds.contains(&e.kind()) && e.to_string().contains(message), "{number}: {e}, {message}");
            let released = RELEASED.get() - released_before;
            assert!(released == 2 || message == "taken before", "{number}, {message}: {released} were released");
        }
    }

    /// Invalid values were trusted as if a safe API had made them, and buffers were read beyond their ends.
    #[test]
    fn values_are_checked_when_they_are_read() {
        let words = texts(OFFSETS);
        let keys = export("l", 2, &[NONE, numbers(&[0_i64, 1000])], vec![]);
        let keys = with(keys, |schema, array| (schema.dictionary, array.dictionary) = (words.schema, words.array));
        let invalid = [
            texts([0, 1, -5, 3, 4, 5, 6, 7, 8]),
            texts([0, 1, 2, 3, 1_000_000_000, 5, 6, 7, 8]),
            export("u", 8, &[NONE, numbers(&OFFSETS), text(b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8").cast()], vec![]),
            export("vu", 1, &[NONE, numbers(&[100, 0, 77, 1 << 30]), numbers::<i64>(&[])], vec![]),
            export("+l", 2, &[NONE, numbers(&[0, 1, 9])], vec![ints()]),
            export("+vl", 2, &[NONE, numbers(&[0, -5]), numbers(&[1, 1_000_000_000])], vec![ints()]),
            with(ints(), |_, array| {
                (array.null_count, array.buffers) = (4, leak([numbers(&[!0_u8]), numbers(&[0_i64; 8])]).as_ptr())
            }),
            keys,
        ];
        for (number, exported) in invalid.into_iter().enumerate() {
            let rows = exported.import().unwrap();
            let e = rows.column("values").unwrap().chunks().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{number}");
        }
    }

    /// For example, columns of type null have a bitmap in Polars and none in pyarrow.
    #[test]
    fn import_accepts_variants_of_other_libraries() {
        let import_cells = |exported: Exported| {
            let rows = exported.import().unwrap();
            rows.validate(|_, _| ()).unwrap();
            rows.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect::<Vec<_>>().join(" ")
        };
        for buffers in [&[][..], &[NONE]] {
            assert_eq!(import_cells(export("n", 2, buffers, vec![])), "null null");
            let list = export("+l", 1, &[NONE, numbers(&[0, 2])], vec![export("n", 2, buffers, vec![])]);
            assert_eq!(import_cells(list), "[null, null]");
        }
        let values = numbers(&[1_i64, 2, 3, 4, 5, 6, 7, 8]);
        // A count of -1 is unknown.
        let with_null_count = |nulls| {
            let ints = export("l", 3, &[numbers(&[0b1011_u8]), values], vec![]);
            with(ints, |_, array| (array.null_count, array.offset) = (nulls, 1))
        };
        assert_eq!(import_cells(with_null_count(-1)), "2 null 4");
        assert_eq!(import_cells(with_null_count(1)), "2 null 4");
        // Numbers at an odd address.
        let misaligned = numbers(&[0_u8, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).wrapping_add(1);
        assert_eq!(import_cells(export("l", 2, &[NONE, misaligned], vec![])), "1 2");
        // Lists without rows get the one offset that other libraries expect.
        for length in [0, 2] {
            let lists = export("+l", 0, &[NONE, NONE], vec![ints()]);
            let lists = export("+l", length, &[NONE, numbers(&[0, 0, 0])], vec![lists]);
            let rows = lists.import().unwrap();
            let array = rows.column("values").unwrap().chunks().unwrap().remove(0);
            assert_eq!(
                (array.buffers()[0].len(), array.child_data()[0].buffers()[0].len()),
                (if length == 0 { 4 } else { 12 }, 4)
            );
        }
        // Columns without rows may lack buffers, even if their offset isn't zero.
        assert_eq!(import_cells(with(export("u", 0, &[NONE, NONE, NONE], vec![]), |_, array| array.offset = 5)), "");
        // A slice of lists is exported with the items of all lists.
        let slice = |offset, length| {
            let lists = export("+l", length, &[NONE, numbers(&[0, 2, 3, 8])], vec![ints()]);
            with(lists, |_, array| array.offset = offset)
        };
        assert_eq!(import_cells(slice(0, 3)), "[1, 2] [3] [4, 5, 6, 7, 8]");
        assert_eq!(
            (import_cells(slice(1, 2)), import_cells(slice(1, 1)), import_cells(slice(0, 1))),
            ("[3] [4, 5, 6, 7, 8]".into(), "[3]".into(), "[1, 2]".into())
        );
        let unnamed = with(ints(), |schema, _| schema.name = std::ptr::null());
        assert_eq!(import_cells(unnamed), "1 2 3 4 5 6 7 8");
    }
}
