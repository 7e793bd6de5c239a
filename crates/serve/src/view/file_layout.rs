//! Shows the layout of a file: its messages and buffers, which of its pages are in memory, and where the bytes of a
//! cell are.

use std::fs::{self, File};
use std::io;
use std::iter::Peekable;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use arrowwood::layout::{BufferRole, children, layout};
use arrowwood::mapping::os::read_exact_at;
use arrowwood::{
    BufferInfo, Dataset, Error, Mapping, Message, MessageKind, Mode, RecordKind, RecordStat, Value, open, segment_stat,
    table_stat,
};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use super::cells::one_column;
use super::exact_text::{ExactText, exact};
use super::image;
use super::nested_value::TreeRenderer;
use super::value_condition::same;
use crate::catalog::{Kind, Snapshot, Table, segment_digits, stat_of};
use crate::hex::hex;
use crate::http::{Problem, Query, ResponseBody, Result, ResultExt, with_type};
use crate::session::Session;

pub(crate) const PARAMETERS: &[&str] = &["file", "message", "from", "limit", "residency", "commits"];
pub(crate) const CELL_PARAMETERS: &[&str] = &["row", "at"];

/// The number of messages in a response, unless the client asks for more or fewer.
const DEFAULT_MESSAGES: usize = 500;
const MAX_MESSAGES: usize = 5_000;
const FIRST_MESSAGE: usize = 0;
/// The maximum number of files in a response.
const MAX_FILES: usize = 10_000;
/// The maximum number of bytes of a buffer that are shown.
const MAX_BUFFER_BYTES: usize = 64;
/// The maximum number of characters of a cell that is shown.
const MAX_CELL_CHARS: usize = 16 << 10;
/// The maximum number of characters of a cell that is sent whole.
const MAX_TEXT_CHARS: usize = 32 << 20;
/// The maximum number of bytes of a value that is no text, and has no parts.
const SCALAR_BYTES: usize = 1 << 10;
/// The maximum number of bytes of a character in UTF-8.
const MAX_CHAR_BYTES: usize = 4;
/// The number of hexadecimal digits of a byte.
const HEX_DIGITS: usize = 2;
/// The number of rows whose bits are in one byte.
const BITS: u64 = 8;
/// The size in bytes of a view, of a string or of bytes.
const VIEW_BYTES: usize = 16;
/// The maximum number of parts of a file whose resident pages are counted.
const MAX_PARTS: usize = 2_000;

/// A file, and the number of its first row.
struct TableFile {
    path: PathBuf,
    first_row: u64,
}

/// Returns the files of a table, in the order of their rows.
fn table_files(table: &Table, rows: &Dataset) -> Result<Vec<TableFile>> {
    match table.kind {
        Kind::File => Ok(vec![TableFile { path: table.path.clone(), first_row: 0 }]),
        Kind::Files => {
            let mut files = Vec::new();
            if !rows.is_empty().or_table_problem()? {
                let mut first_row = 0;
                for slice in rows.file_slices().or_table_problem()? {
                    files.push(TableFile { path: slice.path, first_row });
                    first_row += slice.rows;
                }
            }
            Ok(files)
        }
        Kind::Table => segment_files(&table.path)
            .map_err(|e| Error::io("listing the table", &e).at(&table.path))
            .or_table_problem(),
    }
}

/// Lists the segments of a table, whose names are the numbers of their first rows.
fn segment_files(folder: &Path) -> io::Result<Vec<TableFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(first_row) = name.and_then(segment_digits).and_then(|digits| digits.parse().ok()) {
            files.push(TableFile { path, first_row });
        }
    }
    files.sort_by_key(|file| file.first_row);
    Ok(files)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Lists the files of a table, or the messages of a file, or describes one message with its buffers. Blocks.
pub(crate) fn messages(snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let table = snapshot.table.as_ref();
    let files = table_files(table, &snapshot.rows)?;
    let Some(file) = query.number::<usize>("file")? else { return describe_files(table, &files) };
    let Some(file) = files.get(file) else {
        return Err(Problem::not_found(format!("there are {} files, counted from 0", files.len())));
    };
    let metadata = fs::metadata(&file.path).map_err(|e| Error::io("asking for its size", &e).at(&file.path));
    let size = metadata.or_table_problem()?.len();
    if let Some(parts) = query.number::<usize>("residency")? {
        let mapping = Mapping::open(&file.path, Mode::Read).map_err(Error::from).or_table_problem()?;
        let shares = mapping.residency(parts.clamp(1, MAX_PARTS)).map_err(Error::from).or_table_problem()?;
        return Ok(json!({"size": size, "shares": shares}));
    }
    if query.flag("commits")? {
        return describe_commits(table, &file.path);
    }
    if let Some(number) = query.number::<usize>("message")? {
        return message_at(file, number);
    }
    let from = query.number::<usize>("from")?.unwrap_or(FIRST_MESSAGE);
    let limit = query.number::<usize>("limit")?.unwrap_or(DEFAULT_MESSAGES).min(MAX_MESSAGES);
    list_messages(file, size, from, limit)
}

/// Describes message `number` of a file, with its buffers.
fn message_at(file: &TableFile, number: usize) -> Result<Json> {
    let mut description = None;
    let mut total = 0;
    each_message(file, |message| {
        if total == number {
            description = Some(describe_message(&message));
            return ControlFlow::Break(());
        }
        total += 1;
        ControlFlow::Continue(())
    })?;
    description.ok_or_else(|| Problem::not_found(format!("there are {total} messages, counted from 0")))
}

/// Lists at most `limit` messages of a file of `size` bytes, from number `from` on.
fn list_messages(file: &TableFile, size: u64, from: usize, limit: usize) -> Result<Json> {
    let mut messages = Vec::new();
    let mut total = 0;
    each_message(file, |message| {
        if total >= from && messages.len() < limit {
            messages.push(summarize_message(&message));
        }
        total += 1;
        ControlFlow::Continue(())
    })?;
    Ok(json!({"name": file_name(&file.path), "size": size, "from": from, "total": total, "messages": messages}))
}

/// Visits the messages of a file, of which there may be very many.
fn each_message(file: &TableFile, visit: impl FnMut(Message) -> ControlFlow<()>) -> Result<()> {
    open(&file.path).and_then(|rows| rows.each_message(visit)).or_table_problem()
}

fn describe_files(table: &Table, files: &[TableFile]) -> Result<Json> {
    let shown = files.iter().take(MAX_FILES).map(|file| {
        // A file that was removed since has no bytes.
        let size = fs::metadata(&file.path).map_or(0, |data| data.len());
        json!({"name": file_name(&file.path), "size": size, "first_row": file.first_row})
    });
    let mut response = json!({"files": shown.collect::<Vec<_>>(), "total": files.len()});
    if table.kind == Kind::Table
        && let Some(stat) = table_stat(&table.path).or_table_problem()?
    {
        response["end"] = stat.end.into();
        response["durable_end"] = stat.durable_end.into();
        response["live"] = stat.live.into();
        response["writer"] = stat.writer.into();
        response["disk_bytes"] = stat.disk.into();
        response["apparent_bytes"] = stat.apparent.into();
    }
    Ok(response)
}

/// Describes the state of a table, and the commit records of one of its segments; the segment is null if it is sealed
/// without free space, or no segment.
fn describe_commits(table: &Table, path: &Path) -> Result<Json> {
    if table.kind != Kind::Table {
        return Ok(json!({"segment": null}));
    }
    let stat = stat_of(table)?;
    let table = json!({"end": stat.end, "durable_end": stat.durable_end, "live": stat.live, "writer": stat.writer});
    let Some(segment) = segment_stat(path).or_table_problem()? else {
        return Ok(json!({"table": table, "segment": null}));
    };
    let (live_page_offset, live_page_length) = segment.live_page;
    let (log_offset, log_length) = segment.log;
    let segment = json!({
        "first_row": segment.first_row, "capacity": segment.capacity, "sequence": segment.sequence,
        "writer": segment.writer, "durable_end": segment.durable_end,
        "live_page": {"offset": live_page_offset, "length": live_page_length},
        "log": {"offset": log_offset, "length": log_length},
        "records": segment.records.iter().map(describe_record).collect::<Vec<_>>(),
    });
    Ok(json!({"table": table, "segment": segment}))
}

fn describe_record(record: &RecordStat) -> Json {
    let place = match record.place {
        RecordKind::Visible => "visible",
        RecordKind::Durable => "durable",
        RecordKind::Log => "log",
    };
    json!({
        "place": place, "offset": record.offset, "bytes": record.bytes, "sequence": record.sequence,
        "end": record.end, "sealed": record.sealed, "provisional": record.provisional, "boot": hex(&record.boot),
        "this_boot": record.this_boot,
    })
}

fn kind_name(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Schema => "schema",
        MessageKind::RecordBatch => "record batch",
        MessageKind::DictionaryBatch => "dictionary batch",
        MessageKind::Tensor | MessageKind::SparseTensor => "tensor",
    }
}

fn summarize_message(message: &Message) -> Json {
    json!({
        "kind": kind_name(message.kind), "offset": message.offset, "metadata_offset": message.metadata_offset,
        "metadata_length": message.metadata_length, "body_offset": message.body_offset,
        "body_length": message.body_length, "rows": message.rows, "buffers": message.buffers.len(),
    })
}

fn describe_message(message: &Message) -> Json {
    let mut description = summarize_message(message);
    description["version"] = message.version.into();
    description["compression"] = message.compression.map(|codec| format!("{codec:?}").to_lowercase()).into();
    description["dictionary"] = message.dictionary.map(|(id, is_delta)| json!({"id": id, "delta": is_delta})).into();
    let buffers = message.buffers.iter().map(|buffer| {
        let offset = message.body_offset as i64 + buffer.offset;
        json!({"field": &*buffer.field, "name": buffer.name, "offset": offset, "length": buffer.length})
    });
    description["buffers"] = buffers.collect();
    description
}

/// Returns a cell in full, and its bytes: in which file, message and buffers, and at which offsets. Blocks.
pub(crate) fn cell(snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let rows = &snapshot.rows;
    let CellAddress { row, index, column } = CellAddress::from_query(rows, query)?;
    let values = rows.row(index).or_table_problem()?;
    let field = rows.schema().field(column);
    let mut response = json!({"row": row, "column": field.name(), "type": arrowwood::field_type_name(field)});
    match values.get(column) {
        Ok(value) if value.is_null() => response["value"] = Json::Null,
        Ok(value) => {
            match exact(&value, MAX_CELL_CHARS) {
                Ok(ExactText { text, is_whole }) => {
                    response["value"] = text.into();
                    response["whole"] = is_whole.into();
                }
                Err(e) => response["error"] = e.message().into(),
            }
            if matches!(value, Value::List(_) | Value::Map(_) | Value::Struct(_)) {
                response["inside"] = TreeRenderer::default().render(&value);
            }
            if let Value::Bytes(bytes) = value {
                response["image"] = image::media_type(bytes).into();
            }
        }
        Err(e) => response["error"] = e.message().into(),
    }
    let cell = rows.select_at(&[column]).and_then(|column| column.slice(index, 1)).or_table_problem()?;
    response["condition"] = same(rows.schema(), column, &cell, Some(row)).into();
    if let Some(place) = locate_cell(&snapshot.table, rows, row, column)? {
        response["place"] = place;
    }
    Ok(response)
}

/// Returns the whole text of a cell. Blocks.
pub(crate) fn text(session: &Session, snapshot: &Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let rows = &snapshot.rows;
    let CellAddress { index, column, .. } = CellAddress::from_query(rows, query)?;
    let values = rows.row(index).or_table_problem()?;
    let value = values.get(column).or_table_problem()?;
    let bytes = match &value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => HEX_DIGITS * bytes.len(),
        Value::List(_) | Value::Map(_) | Value::Struct(_) | Value::Union(..) => MAX_CHAR_BYTES * MAX_TEXT_CHARS,
        _ => SCALAR_BYTES,
    };
    // The text is in memory until it is sent.
    let share = session.shared.queries.try_share(bytes.min(MAX_CHAR_BYTES * MAX_TEXT_CHARS));
    let share = share.ok_or_else(|| Problem::unavailable("the memory for queries is taken; try again"))?;
    let ExactText { text, is_whole } = exact(&value, MAX_TEXT_CHARS).or_table_problem()?;
    if !is_whole {
        let detail = format!(
            "the cell has more than {MAX_TEXT_CHARS} characters, the most that are sent; `arrowwood cat` prints any \
             number"
        );
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", detail));
    }
    Ok(with_type(StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::new(text).holding(share)))
}

/// The cell that a request names.
struct CellAddress {
    /// The number of its row.
    row: u64,
    /// The index of the row in the dataset.
    index: u64,
    column: usize,
}

impl CellAddress {
    fn from_query(rows: &Dataset, query: &Query) -> Result<CellAddress> {
        let column = one_column(rows, query)?;
        let row =
            query.number::<u64>("row")?.ok_or_else(|| Problem::bad_request("row: the number of a row is expected"))?;
        let len = rows.len().or_table_problem()?;
        match row.checked_sub(rows.first_row()) {
            Some(index) if index < len => Ok(CellAddress { row, index, column }),
            _ => Err(Problem::not_found(format!("there is no row {row}"))),
        }
    }
}

/// Locates the bytes of a cell; returns `None` if no message of the file has them, for example if the row is not in a
/// footer yet.
fn locate_cell(table: &Table, rows: &Dataset, row: u64, column: usize) -> Result<Option<Json>> {
    let files = table_files(table, rows)?;
    let Some((file_number, file)) = files.iter().enumerate().rev().find(|(_, file)| file.first_row <= row) else {
        return Ok(None);
    };
    let mut number = 0;
    let mut index = row - file.first_row;
    let mut batch = None;
    each_message(file, |message| {
        if message.kind == MessageKind::RecordBatch
            && let Some(rows) = message.rows
        {
            if index < rows {
                batch = Some(message);
                return ControlFlow::Break(());
            }
            index -= rows;
        }
        number += 1;
        ControlFlow::Continue(())
    })?;
    let Some(message) = batch else { return Ok(None) };
    let types: Vec<&DataType> = rows.schema().fields().iter().map(|field| field.data_type()).collect();
    let source = File::open(&file.path).map_err(|e| Error::io("opening", &e).at(&file.path)).or_table_problem()?;
    Ok(Some(json!({
        "file": file_number, "name": file_name(&file.path), "message": number, "message_offset": message.offset,
        "row_in_batch": index, "compressed": message.compression.is_some(),
        "buffers": describe_buffers(&source, &message, &types, column, index),
    })))
}

/// Describes the buffers of `column`, each with the bytes that belong to row `row` of the batch.
fn describe_buffers(file: &File, message: &Message, types: &[&DataType], column: usize, row: u64) -> Vec<Json> {
    let mut buffers = message.buffers.iter().peekable();
    types.iter().take(column).for_each(|data_type| skip_column(data_type, &mut buffers));
    let Some(data_type) = types.get(column) else { return Vec::new() };
    let mut descriptions = Vec::new();
    // The range of the row in the buffer of data, once its offsets are read.
    let mut data = None;
    for role in layout(data_type).roles() {
        let Some(buffer) = buffers.next_if(|buffer| has_role(buffer, role)) else { break };
        // A damaged message may have any numbers here.
        let (Ok(offset), Ok(length)) = (u64::try_from(buffer.offset), u64::try_from(buffer.length)) else { break };
        let start = message.body_offset.saturating_add(offset);
        let mut description = json!({"name": buffer.name, "offset": start, "length": length});
        let range = row_range(role, row, data.clone()).filter(|range| range.end <= length);
        if let Some(range) = range.filter(|_| message.compression.is_none()) {
            let len = range.end - range.start;
            let mut bytes = vec![0; len.min(MAX_BUFFER_BYTES as u64) as usize];
            let position = start.saturating_add(range.start);
            if read_exact_at(file, &mut bytes, position).is_ok() {
                if let BufferRole::Offsets { width } = role {
                    data = offset_pair(&bytes, width);
                }
                description["at"] = position.into();
                description["bytes"] = len.into();
                description["hex"] =
                    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ").into();
                if matches!(role, BufferRole::Validity | BufferRole::Bits) {
                    description["bit"] = (row % BITS).into();
                }
            }
        }
        descriptions.push(description);
    }
    descriptions
}

/// Returns the bytes of a row in its buffer; `data` is the row's range in the buffer of data.
fn row_range(role: BufferRole, row: u64, data: Option<Range<u64>>) -> Option<Range<u64>> {
    let (size, count) = match role {
        BufferRole::Validity | BufferRole::Bits => return Some(row / BITS..row / BITS + 1),
        BufferRole::Data => return data.filter(|range| range.start <= range.end),
        BufferRole::Values { width, .. } | BufferRole::Starts { width } | BufferRole::Sizes { width } => (width, 1),
        BufferRole::Offsets { width } => (width, 2),
        BufferRole::Views => (VIEW_BYTES, 1),
        BufferRole::TypeIds => (1, 1),
    };
    let start = row.checked_mul(size as u64)?;
    Some(start..start.checked_add(size as u64 * count)?)
}

/// Reads two offsets of `width` bytes.
fn offset_pair(bytes: &[u8], width: usize) -> Option<Range<u64>> {
    Some(read_offset(bytes.get(..width)?)?..read_offset(bytes.get(width..2 * width)?)?)
}

fn read_offset(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// Returns true if a buffer has this role; the values of a dictionary's column are called keys.
fn has_role(buffer: &BufferInfo, role: BufferRole) -> bool {
    buffer.name == role.name() || buffer.name == "keys" && matches!(role, BufferRole::Values { .. })
}

/// Skips the buffers of a column.
fn skip_column<'a>(data_type: &DataType, buffers: &mut Peekable<impl Iterator<Item = &'a BufferInfo>>) {
    let layout = layout(data_type);
    for role in layout.roles() {
        buffers.next_if(|buffer| has_role(buffer, role));
    }
    if layout.variadic {
        while buffers.next_if(|buffer| has_role(buffer, BufferRole::Data)).is_some() {}
    }
    children(data_type).into_iter().for_each(|child| skip_column(child.data_type(), buffers));
}
