//! Lists the messages of a file with their fields, nodes and buffers by name. Reads no body.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data::ReadOptions;
use super::source::IpcSource;
use crate::array::Bytes;
use crate::dataset::{Dataset, Files};
use crate::error::{Error, ErrorKind, Result};
use crate::escape::escape_hidden;
use crate::ipc::framing::{
    BatchHeader, Compression, DictionaryHeader, IpcSchema, MessageFrame, MessageHeader, MessageKind, Node, V5, Window,
    buffer_roles,
};
use crate::map::{Mapping, Mode};
use crate::types::{is_ordered, type_name};

/// One message of an IPC file or stream.
#[derive(Clone, Debug)]
pub struct Message {
    /// The kind of message.
    pub kind: MessageKind,
    /// Offset of the message in the file, at its length prefix.
    pub offset: u64,
    /// Offset of the metadata, a flatbuffer.
    pub metadata_offset: u64,
    /// Length of the metadata in bytes, with padding.
    pub metadata_length: u64,
    /// The offset of the body in the file or stream, in bytes.
    pub body_offset: u64,
    /// Length of the body in bytes.
    pub body_length: u64,
    /// The metadata version, 4 or 5.
    pub version: u8,
    /// Fields of a Schema message; empty for other messages.
    pub fields: Vec<FieldInfo>,
    /// Number of rows of a record batch, or of values of a dictionary batch.
    pub rows: Option<u64>,
    /// The id of a dictionary batch, and whether it is a delta.
    pub dictionary: Option<(i64, bool)>,
    /// The codec of the body.
    pub compression: Option<Compression>,
    /// Field nodes, in the order of the format.
    pub nodes: Vec<NodeInfo>,
    /// Buffers, in the order of the format.
    pub buffers: Vec<BufferInfo>,
    /// Key-value metadata of the message, or of the schema it holds.
    pub metadata: BTreeMap<String, String>,
}

/// A field of a schema: a column, or a child of another field.
#[derive(Clone, Debug)]
pub struct FieldInfo {
    /// The name of the field, without those of its parents.
    pub name: String,
    /// The type, in words.
    pub data_type: String,
    /// True if the field may have nulls.
    pub nullable: bool,
    /// The dictionary id, the type of the keys, and whether the values are ordered.
    pub dictionary: Option<(i64, String, bool)>,
    /// Key-value metadata.
    pub metadata: BTreeMap<String, String>,
    /// Child fields.
    pub children: Vec<FieldInfo>,
}

/// A field node: the length and null count of one array.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The name of the field, with its parents' names and dots in front; shared by all nodes and buffers of the field.
    pub field: Arc<str>,
    /// Number of rows.
    pub length: i64,
    /// Number of nulls.
    pub null_count: i64,
}

/// A buffer of a body.
#[derive(Clone, Debug)]
pub struct BufferInfo {
    /// The name of the field, with its parents' names and dots in front.
    pub field: Arc<str>,
    /// The role of the buffer: validity, offsets, values, data …
    pub name: &'static str,
    /// Offset of the buffer in the body.
    pub offset: i64,
    /// Length in bytes.
    pub length: i64,
}

/// # Messages of the file
impl Dataset {
    /// Returns the messages of the file or stream, in their order there.
    ///
    /// A dataset of several files has the messages of all files; a table has the messages that any Arrow reader finds
    /// in its files at this moment.
    ///
    /// # Errors
    /// `Unsupported` for data in memory, which has no messages; `InvalidData` for a damaged file.
    pub fn messages(&self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        self.each_message(|message| {
            messages.push(message);
            ControlFlow::Continue(())
        })?;
        Ok(messages)
    }

    /// Calls `visit` with each of [`Dataset::messages`] until it breaks. Stores none of them.
    ///
    /// # Errors
    /// The errors of [`Dataset::messages`].
    pub fn each_message(&self, mut visit: impl FnMut(Message) -> ControlFlow<()>) -> Result<()> {
        // All files of a table, history and live segment, are opened before the first message is visited: a file that
        // was merged in between would repeat rows of messages that were visited already.
        let mut table_files = OpenedFiles::default();
        for source in self.sources() {
            let files = source.facts().files;
            if let Some(files) = files.filter(|files| files.are_merged()) {
                table_files.open(files)?;
                continue;
            }
            if table_files.visit(&mut visit)?.is_break() {
                return Ok(());
            }
            let visited = match (source.find::<IpcSource>(), files) {
                (Some(ipc), _) => each_message_of(ipc, &mut visit)?,
                (None, Some(files)) => each_message_in(&files.list(), &mut visit)?,
                (None, None) => {
                    return Err(Error::new(ErrorKind::Unsupported, "arrays in memory have no messages"));
                }
            };
            if visited.is_break() {
                return Ok(());
            }
        }
        table_files.visit(&mut visit).map(drop)
    }
}

fn each_message_in(files: &[PathBuf], visit: &mut impl FnMut(Message) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
    for file in files {
        if each_message_of(&open_file(file)?, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn open_file(path: &Path) -> Result<IpcSource> {
    let bytes = Bytes::from_mapping_or_copy(Mapping::open(path, Mode::Read)?)?;
    IpcSource::open(bytes, Some(path), ReadOptions::default())
}

/// How often opening a file may find that the file was merged into another one, before that is an error.
const MAX_MERGES: usize = 64;

/// Opened files of tables, in order, with their names.
#[derive(Default)]
struct OpenedFiles(Vec<(PathBuf, IpcSource)>);

impl OpenedFiles {
    /// Opens the files of a source. If files were merged, opens the file that has their rows now.
    fn open(&mut self, files: &dyn Files) -> Result<()> {
        files.list().iter().try_for_each(|file| self.open_one(files, file))
    }

    fn open_one(&mut self, files: &dyn Files, file: &Path) -> Result<()> {
        let mut path = file.to_path_buf();
        let mut merges = 0;
        let ipc = loop {
            match open_file(&path) {
                Err(e) if e.kind() == ErrorKind::NotFound && merges < MAX_MERGES => {
                    path = files.successor(file)?.ok_or(e)?;
                    merges += 1;
                }
                opened => break opened?,
            }
            if self.ends_with(&path)? {
                return Ok(());
            }
        };
        // A file that was opened by this name before lacks some of the rows that the file has now.
        if let Some(earlier) = self.0.iter().rposition(|(name, _)| *name == path) {
            self.0.truncate(earlier);
        }
        // A table may have more segments than a process may have open files.
        ipc.close_file();
        self.0.push((path, ipc));
        Ok(())
    }

    /// Returns true if the last file is still the one at `path`.
    fn ends_with(&self, path: &Path) -> Result<bool> {
        match self.0.last() {
            Some((name, ipc)) if name == path => ipc.is_at(path),
            _ => Ok(false),
        }
    }

    /// Visits the messages of the files, and closes them.
    fn visit(&mut self, visit: &mut impl FnMut(Message) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        for (_, ipc) in self.0.drain(..) {
            if each_message_of(&ipc, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn each_message_of(ipc: &IpcSource, visit: &mut impl FnMut(Message) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
    let mut window = Window::new();
    let mut names = NodeNames::new();
    for frame in ipc.frames()? {
        if visit(read_message(ipc, frame, &mut window, &mut names)?).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The full names of fields, each built once: files with many batches or long names would repeat them endlessly.
type NodeNames = HashMap<*const Node, Arc<str>>;

/// The limit of bytes of a parent's name. Longer names are left out: thousands of children would each repeat them.
const MAX_PARENT_NAME: usize = 1 << 10;

/// Reads the message at `frame`.
fn read_message(ipc: &IpcSource, frame: MessageFrame, window: &mut Window, names: &mut NodeNames) -> Result<Message> {
    let metadata = window.get(&ipc.data.bytes, frame.metadata, frame.metadata_len)?;
    let header = MessageHeader::parse(metadata)?;
    let mut message = Message {
        kind: header.kind,
        offset: frame.offset as u64,
        metadata_offset: frame.metadata as u64,
        metadata_length: frame.metadata_len as u64,
        body_offset: frame.body() as u64,
        body_length: header.body_len as u64,
        version: match header.version {
            V5 => 5,
            _ => 4,
        },
        fields: Vec::new(),
        rows: None,
        dictionary: None,
        compression: None,
        nodes: Vec::new(),
        buffers: Vec::new(),
        metadata: header.custom_metadata()?.into_iter().collect(),
    };
    match header.kind {
        MessageKind::Schema => {
            let schema = IpcSchema::parse(header.table, metadata.len())?;
            message.fields = schema.columns.iter().map(field_info).collect();
            message.metadata.extend(schema.schema.metadata().clone());
        }
        MessageKind::RecordBatch => {
            message.lay_out(BatchHeader::parse(header.table)?, &ipc.data.schema.columns, header.version, names);
        }
        MessageKind::DictionaryBatch => {
            let dictionary = DictionaryHeader::parse(header.table)?;
            message.dictionary = Some((dictionary.id, dictionary.is_delta));
            let node = ipc.dictionaries.node(dictionary.id);
            let nodes = node.map_or(&[][..], std::slice::from_ref);
            message.lay_out(BatchHeader::parse(dictionary.data)?, nodes, header.version, names);
        }
        MessageKind::Tensor | MessageKind::SparseTensor => {}
    }
    Ok(message)
}

fn field_info(node: &Node) -> FieldInfo {
    let inner = node.dictionary.as_ref().map_or(node, |(_, values)| values);
    let dictionary = node.dictionary.as_ref().map(|(id, _)| {
        let keys = match node.data_type() {
            arrow_schema::DataType::Dictionary(keys, _) => type_name(keys),
            _ => String::new(),
        };
        (*id, keys, is_ordered(&node.field))
    });
    FieldInfo {
        name: node.field.name().clone(),
        data_type: type_name(inner.data_type()),
        nullable: node.field.is_nullable(),
        dictionary,
        metadata: node.field.metadata().clone().into_iter().collect(),
        children: inner.children.iter().map(field_info).collect(),
    }
}

impl Message {
    /// Lists the nodes and buffers of a record batch, with names.
    fn lay_out(&mut self, header: BatchHeader, nodes: &[Node], version: i16, names: &mut NodeNames) {
        self.rows = Some(header.rows as u64);
        self.compression = header.compression;
        let mut lists = BufferNamer {
            nodes: header.nodes.iter(),
            buffers: header.buffers.iter(),
            variadics: header.variadics.iter(),
            version,
            names,
            message: self,
        };
        nodes.iter().for_each(|node| lists.name(node, ""));
        lists.name_rest();
    }
}

/// Names the entries of a record batch's lists by the fields of the schema.
struct BufferNamer<'a> {
    nodes: std::slice::Iter<'a, (i64, i64)>,
    buffers: std::slice::Iter<'a, (i64, i64)>,
    variadics: std::slice::Iter<'a, i64>,
    version: i16,
    names: &'a mut NodeNames,
    message: &'a mut Message,
}

impl BufferNamer<'_> {
    fn name(&mut self, node: &Node, parent: &str) {
        let field =
            self.names.entry(std::ptr::from_ref(node)).or_insert_with(|| full_name(node.field.name(), parent)).clone();
        if let Some(&(length, null_count)) = self.nodes.next() {
            self.message.nodes.push(NodeInfo { field: field.clone(), length, null_count });
        }
        for role in buffer_roles(node, self.version) {
            let name = if node.dictionary.is_some() && role.name() == "values" { "keys" } else { role.name() };
            self.buffer(&field, name);
        }
        // A damaged file may lack the count, or have any number there: only buffers that are present are named.
        if let Some(&count) = node.layout.variadic.then(|| self.variadics.next()).flatten() {
            for _ in 0..count.clamp(0, self.buffers.len() as i64) {
                self.buffer(&field, "data");
            }
        }
        node.children.iter().for_each(|child| self.name(child, &field));
    }

    /// Adds the next buffer, if there is one.
    fn buffer(&mut self, field: &Arc<str>, name: &'static str) {
        if let Some(&(offset, length)) = self.buffers.next() {
            self.message.buffers.push(BufferInfo { field: field.clone(), name, offset, length });
        }
    }

    /// Adds the nodes and buffers that a damaged file has too many of.
    fn name_rest(&mut self) {
        let nameless = Arc::from("");
        while self.buffers.len() > 0 {
            self.buffer(&nameless, "?");
        }
    }
}

fn full_name(name: &str, parent: &str) -> Arc<str> {
    if parent.is_empty() {
        name.into()
    } else if parent.len() > MAX_PARENT_NAME {
        format!("….{name}").into()
    } else {
        format!("{parent}.{name}").into()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.name();
        let offset = self.offset;
        let metadata = self.metadata_length;
        write!(f, "{kind} at {offset}, metadata {metadata} bytes")?;
        if self.body_length > 0 {
            write!(f, ", body at {}, {} bytes", self.body_offset, self.body_length)?;
        }
        if let Some((id, is_delta)) = self.dictionary {
            write!(f, ", dictionary {id}{}", if is_delta { " (delta)" } else { "" })?;
        }
        if let Some(rows) = self.rows {
            write!(f, ", {rows} rows")?;
        }
        if let Some(codec) = self.compression {
            write!(f, ", {}", codec.name())?;
        }
        for field in &self.fields {
            field.print(f, 1)?;
        }
        for node in &self.nodes {
            write!(
                f,
                "\n  node   {:24} length {}, nulls {}",
                escape_hidden(&node.field),
                node.length,
                node.null_count
            )?;
        }
        for buffer in &self.buffers {
            let name = format!("{} {}", escape_hidden(&buffer.field), buffer.name);
            write!(f, "\n  buffer {name:24} offset {}, length {}", buffer.offset, buffer.length)?;
        }
        Ok(())
    }
}

impl FieldInfo {
    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let null = if self.nullable { "" } else { " not null" };
        write!(f, "\n{indent}field  {}: {}{null}", escape_hidden(&self.name), escape_hidden(&self.data_type))?;
        if let Some((id, keys, _)) = &self.dictionary {
            write!(f, ", dictionary {id} with {keys} keys")?;
        }
        self.children.iter().try_for_each(|child| child.print(f, depth + 1))
    }
}
