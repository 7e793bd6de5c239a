//! A file taken apart: its messages and buffers, which of its pages are in memory, and where the bytes of a cell are.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use arrowwood::layout::{BufferRole, children, layout};
use arrowwood::{
    BufferInfo, Dataset, Error, Mapping, Message, MessageKind, Mode, RecordKind, RecordStat, Value, open, segment_stat,
    table_stat,
};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use crate::cells::one_column;
use crate::exact_text::{ExactText, exact};
use crate::image;
use crate::nested_value::TreeRenderer;
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response::with_type;
use crate::response_body::ResponseBody;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::table::{Kind, Table};
use crate::value_condition::same;

pub(crate) const PARAMETERS: &[&str] = &["file", "message", "from", "limit", "residency", "commits"];
pub(crate) const CELL_PARAMETERS: &[&str] = &["row", "at"];

/// Messages of an answer: unless the client says otherwise, and at most; and files.
const MESSAGES: (usize, usize) = (500, 5_000);
const FILES: usize = 10_000;
/// Bytes of a buffer that are shown, and characters of a cell.
const BYTES: usize = 64;
const CELL: usize = 16 << 10;
/// Characters of a cell that are sent whole.
const TEXT: usize = 32 << 20;
/// Bytes of a value that is no text, and has no parts.
const SHORT: usize = 1 << 10;
/// Parts of a file whose pages are counted.
const PARTS: usize = 2_000;

fn of_table(e: Error) -> Problem {
    Problem::from_table_error(&e)
}

/// A file, and the rows of the table that it holds.
struct TableFile {
    path: PathBuf,
    first_row: u64,
}

/// The files of a table, in the order of their rows.
fn parts(table: &Table, rows: &Dataset) -> Result<Vec<TableFile>> {
    if table.kind == Kind::File {
        return Ok(vec![TableFile { path: table.path.clone(), first_row: 0 }]);
    }
    if table.kind == Kind::Files {
        let mut first_row = 0;
        let places =
            if rows.is_empty().map_err(of_table)? { Vec::new() } else { rows.file_slices().map_err(of_table)? };
        let part = |place: arrowwood::FileSlice| {
            let part = TableFile { path: place.path, first_row };
            first_row += place.rows;
            part
        };
        return Ok(places.into_iter().map(part).collect());
    }
    let failed = |e: std::io::Error| of_table(Error::io("listing the table", &e).at(&table.path));
    let mut found = Vec::new();
    for entry in fs::read_dir(&table.path).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_suffix(".arrow").filter(|number| number.len() == 20);
        if let Some(first_row) = number.and_then(|number| number.parse().ok()) {
            found.push(TableFile { path, first_row });
        }
    }
    found.sort_by_key(|part| part.first_row);
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of a table; or the messages of one; or the buffers of one of these. Blocks.
pub(crate) fn messages(snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let table = snapshot.table.as_ref();
    let parts = parts(table, &snapshot.rows)?;
    let Some(file) = query.number::<usize>("file")? else { return files(table, &parts) };
    let missing = || Problem::not_found(format!("there are {} files, counted from 0", parts.len()));
    let part = parts.get(file).ok_or_else(missing)?;
    let size =
        fs::metadata(&part.path).map_err(|e| of_table(Error::io("asking for its size", &e).at(&part.path)))?.len();
    if let Some(count) = query.number::<usize>("residency")? {
        let mapping = Mapping::open(&part.path, Mode::Read).map_err(|e| of_table(e.into()))?;
        let shares = mapping.residency(count.clamp(1, PARTS)).map_err(|e| of_table(e.into()))?;
        return Ok(json!({"size": size, "shares": shares}));
    }
    if query.flag("commits")? {
        return commits(table, &part.path);
    }
    if let Some(number) = query.number::<usize>("message")? {
        let (mut found, mut total) = (None, 0);
        each_message(part, |message| {
            total += 1;
            found = (total == number.saturating_add(1)).then(|| in_detail(&message));
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        return found.ok_or_else(|| Problem::not_found(format!("there are {total} messages, counted from 0")));
    }
    let from = query.number::<usize>("from")?.unwrap_or(0);
    let limit = query.number::<usize>("limit")?.unwrap_or(MESSAGES.0).min(MESSAGES.1);
    let (mut shown, mut total) = (Vec::new(), 0);
    each_message(part, |message| {
        if total >= from && shown.len() < limit {
            shown.push(brief(&message));
        }
        total += 1;
        ControlFlow::Continue(())
    })?;
    Ok(json!({"name": name_of(&part.path), "size": size, "from": from, "total": total, "messages": shown}))
}

/// Visits the messages of a file, of which there may be very many.
fn each_message(part: &TableFile, visit: impl FnMut(Message) -> ControlFlow<()>) -> Result<()> {
    open(&part.path).and_then(|file| file.each_message(visit)).map_err(of_table)
}

fn files(table: &Table, parts: &[TableFile]) -> Result<Json> {
    let stat = if table.kind == Kind::Table { table_stat(&table.path).map_err(of_table)? } else { None };
    let described = parts.iter().take(FILES).map(|part| {
        let size = fs::metadata(&part.path).map_or(0, |data| data.len());
        json!({"name": name_of(&part.path), "size": size, "first_row": part.first_row})
    });
    let mut told = json!({"files": described.collect::<Vec<_>>(), "total": parts.len()});
    if let Some(stat) = stat {
        told["end"] = stat.end.into();
        told["durable_end"] = stat.durable_end.into();
        told["live"] = stat.live.into();
        told["writer"] = stat.writer.into();
        told["disk_bytes"] = stat.disk.into();
        told["apparent_bytes"] = stat.apparent.into();
    }
    Ok(told)
}

/// What the table says of itself, and the records of one of its segments; null where that is dense, or no segment.
fn commits(table: &Table, path: &Path) -> Result<Json> {
    if table.kind != Kind::Table {
        return Ok(json!({"segment": null}));
    }
    let stat = table_stat(&table.path).map_err(of_table)?.unwrap_or_default();
    let table = json!({"end": stat.end, "durable_end": stat.durable_end, "live": stat.live, "writer": stat.writer});
    let Some(segment) = segment_stat(path).map_err(of_table)? else {
        return Ok(json!({"table": table, "segment": null}));
    };
    let record = |record: &RecordStat| {
        let place = match record.place {
            RecordKind::Visible => "visible",
            RecordKind::Durable => "durable",
            RecordKind::Log => "log",
        };
        let boot: String = record.boot.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "place": place, "offset": record.offset, "bytes": record.bytes, "sequence": record.sequence,
            "end": record.end, "sealed": record.sealed, "provisional": record.provisional, "boot": boot,
            "this_boot": record.this_boot,
        })
    };
    let place = |(offset, length): (u64, u64)| json!({"offset": offset, "length": length});
    let segment = json!({
        "first_row": segment.first_row, "capacity": segment.capacity, "sequence": segment.sequence,
        "writer": segment.writer, "durable_end": segment.durable_end, "live_page": place(segment.live_page),
        "log": place(segment.log), "records": segment.records.iter().map(record).collect::<Vec<_>>(),
    });
    Ok(json!({"table": table, "segment": segment}))
}

fn kind_name(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Schema => "schema",
        MessageKind::RecordBatch => "record batch",
        MessageKind::DictionaryBatch => "dictionary batch",
        MessageKind::Tensor | MessageKind::SparseTensor => "tensor",
    }
}

fn brief(message: &Message) -> Json {
    json!({
        "kind": kind_name(message.kind), "offset": message.offset, "metadata_offset": message.metadata_offset,
        "metadata_length": message.metadata_length, "body_offset": message.body_offset,
        "body_length": message.body_length, "rows": message.rows, "buffers": message.buffers.len(),
    })
}

fn in_detail(message: &Message) -> Json {
    let mut told = brief(message);
    told["version"] = message.version.into();
    told["compression"] = message.compression.map(|codec| format!("{codec:?}").to_lowercase()).into();
    told["dictionary"] = message.dictionary.map(|(id, is_delta)| json!({"id": id, "delta": is_delta})).into();
    let buffers = message.buffers.iter().map(|buffer| {
        let at = message.body_offset as i64 + buffer.offset;
        json!({"field": &*buffer.field, "name": buffer.name, "offset": at, "length": buffer.length})
    });
    told["buffers"] = buffers.collect();
    told
}

/// A cell in full, and its bytes: in which file, message and buffers, and at which offsets. Blocks.
pub(crate) fn cell(snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let rows = &snapshot.rows;
    let CellAddress { row, at, column } = CellAddress::from_query(rows, query)?;
    let found = rows.row(at).map_err(of_table)?;
    let value = found.get(column);
    let field = rows.schema().field(column);
    let mut told = json!({"row": row, "column": field.name(), "type": arrowwood::field_type_name(field)});
    match value {
        Ok(value) if value.is_null() => told["value"] = Json::Null,
        Ok(value) => {
            match exact(&value, CELL) {
                Ok(ExactText { text, is_whole }) => {
                    told["value"] = text.into();
                    told["whole"] = is_whole.into();
                }
                Err(e) => told["error"] = e.message().into(),
            }
            if matches!(value, Value::List(_) | Value::Map(_) | Value::Struct(_)) {
                told["inside"] = TreeRenderer::default().render(&value);
            }
            if let Value::Bytes(bytes) = value {
                told["image"] = image::media_type(bytes).into();
            }
        }
        Err(e) => told["error"] = e.message().into(),
    }
    let own = rows.select_at(&[column]).and_then(|column| column.slice(at, 1)).map_err(of_table)?;
    told["condition"] = same(rows.schema(), column, &own, Some(row)).into();
    if let Some(place) = place(&snapshot.table, rows, row, column)? {
        told["place"] = place;
    }
    Ok(told)
}

/// The whole text of a cell. Blocks.
pub(crate) fn text(session: &Session, snapshot: &Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let rows = &snapshot.rows;
    let CellAddress { at, column, .. } = CellAddress::from_query(rows, query)?;
    let found = rows.row(at).map_err(of_table)?;
    let value = found.get(column).map_err(of_table)?;
    let bytes = match &value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => 2 * bytes.len(),
        Value::List(_) | Value::Map(_) | Value::Struct(_) | Value::Union(..) => 4 * TEXT,
        _ => SHORT,
    };
    // It is kept in memory until it is sent.
    let share = session.shared.queries.try_share(bytes.min(4 * TEXT));
    let share = share.ok_or_else(|| Problem::unavailable("the memory for queries is taken; try again"))?;
    let ExactText { text, is_whole } = exact(&value, TEXT).map_err(of_table)?;
    if !is_whole {
        let detail = format!(
            "the cell has more than {TEXT} characters, the most that are sent; `arrowwood cat` prints any number"
        );
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", detail));
    }
    Ok(with_type(StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::new(text).holding(share)))
}

/// The cell that a request asks for: the number of its row and the row's place in the rows, and its column.
struct CellAddress {
    row: u64,
    at: u64,
    column: usize,
}

impl CellAddress {
    fn from_query(rows: &Dataset, query: &Query) -> Result<CellAddress> {
        let column = one_column(rows, query)?;
        let row =
            query.number::<u64>("row")?.ok_or_else(|| Problem::bad_request("row: the number of a row is expected"))?;
        let len = rows.len().map_err(of_table)?;
        let at = row.checked_sub(rows.first_row()).filter(|at| *at < len);
        let at = at.ok_or_else(|| Problem::not_found(format!("there is no row {row}")))?;
        Ok(CellAddress { row, at, column })
    }
}

/// Where a cell's bytes are; `None` where its file says nothing of them, such as of rows that are not in a footer yet.
fn place(table: &Table, rows: &Dataset, row: u64, column: usize) -> Result<Option<Json>> {
    let parts = parts(table, rows)?;
    let Some((file, part)) = parts.iter().enumerate().rev().find(|(_, part)| part.first_row <= row) else {
        return Ok(None);
    };
    let (mut number, mut index) = (0, row - part.first_row);
    let mut found = None;
    each_message(part, |message| {
        let rows_of = message.rows.filter(|_| message.kind == MessageKind::RecordBatch).unwrap_or(0);
        if index < rows_of {
            found = Some(message);
            return ControlFlow::Break(());
        }
        index -= rows_of;
        number += 1;
        ControlFlow::Continue(())
    })?;
    let Some(message) = found else { return Ok(None) };
    let mut told = json!({
        "file": file, "name": name_of(&part.path), "message": number, "message_offset": message.offset,
        "row_in_batch": index, "compressed": message.compression.is_some(),
    });
    let types: Vec<&DataType> = rows.schema().fields().iter().map(|field| field.data_type()).collect();
    let source = File::open(&part.path).map_err(|e| of_table(Error::io("opening", &e).at(&part.path)))?;
    told["buffers"] = Json::from(buffers(&source, &message, &types, column, index));
    Ok(Some(told))
}

/// The buffers of `column`, each with the bytes that belong to row `row` of the batch.
fn buffers(file: &File, message: &Message, types: &[&DataType], column: usize, row: u64) -> Vec<Json> {
    let mut left = message.buffers.iter().peekable();
    types.iter().take(column).for_each(|data_type| skip(data_type, &mut left));
    let Some(data_type) = types.get(column) else { return Vec::new() };
    let mut told = Vec::new();
    let mut inside: Option<(u64, u64)> = None;
    for role in layout(data_type).roles() {
        let Some(buffer) = left.next_if(|buffer| is_named(buffer, role)) else { break };
        let start = message.body_offset.saturating_add(u64::try_from(buffer.offset).unwrap_or(0));
        let length = u64::try_from(buffer.length).unwrap_or(0);
        let mut described = json!({"name": buffer.name, "offset": start, "length": length});
        let of_row =
            bytes_of(role, row, inside).filter(|(at, len)| at.checked_add(*len).is_some_and(|end| end <= length));
        if let Some((at, len)) = of_row.filter(|_| message.compression.is_none()) {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(BYTES).min(BYTES)];
            if file.read_exact_at(&mut bytes, start + at).is_ok() {
                if let BufferRole::Offsets { width } = role {
                    inside = ends(&bytes, width);
                }
                described["at"] = (start + at).into();
                described["bytes"] = len.into();
                described["hex"] = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ").into();
                if matches!(role, BufferRole::Validity | BufferRole::Bits) {
                    described["bit"] = (row % 8).into();
                }
            }
        }
        told.push(described);
    }
    told
}

/// Offset in its buffer and length of the bytes of a row.
fn bytes_of(role: BufferRole, row: u64, inside: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let width = |width: usize| u64::try_from(width).ok();
    let (size, count) = match role {
        BufferRole::Validity | BufferRole::Bits => return Some((row / 8, 1)),
        BufferRole::Data => return inside.and_then(|(start, end)| Some((start, end.checked_sub(start)?))),
        BufferRole::Values { width: bytes, .. }
        | BufferRole::Starts { width: bytes }
        | BufferRole::Sizes { width: bytes } => (width(bytes)?, 1),
        BufferRole::Offsets { width: bytes } => (width(bytes)?, 2),
        BufferRole::Views => (16, 1),
        BufferRole::TypeIds => (1, 1),
    };
    Some((row.checked_mul(size)?, size.checked_mul(count)?))
}

/// Two offsets of `width` bytes.
fn ends(bytes: &[u8], width: usize) -> Option<(u64, u64)> {
    let number = |at: usize| -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..width)?.copy_from_slice(bytes.get(at..at + width)?);
        Some(u64::from_le_bytes(word))
    };
    Some((number(0)?, number(width)?))
}

/// Whether a buffer has that role; the values of a dictionary's column are called keys.
fn is_named(buffer: &BufferInfo, role: BufferRole) -> bool {
    buffer.name == role.name() || buffer.name == "keys" && matches!(role, BufferRole::Values { .. })
}

/// Leaves out the buffers of a column.
fn skip<'a>(data_type: &DataType, left: &mut std::iter::Peekable<impl Iterator<Item = &'a BufferInfo>>) {
    let layout = layout(data_type);
    for role in layout.roles() {
        left.next_if(|buffer| is_named(buffer, role));
    }
    if layout.variadic {
        while left.next_if(|buffer| is_named(buffer, BufferRole::Data)).is_some() {}
    }
    children(data_type).into_iter().for_each(|child| skip(child.data_type(), left));
}
