//! Converts messages to JSON.

use serde_json::{Value as Json, json};

use super::messages::{BufferInfo, FieldInfo, Message, NodeInfo};
use crate::ipc::framing::MessageKind;

impl Message {
    /// Returns the message as JSON, with every number and name.
    pub fn to_json(&self) -> Json {
        let mut message = json!({
            "kind": self.kind.name(),
            "offset": self.offset,
            "metadata_offset": self.metadata_offset,
            "metadata_length": self.metadata_length,
            "body_offset": self.body_offset,
            "body_length": self.body_length,
            "version": self.version,
            "metadata": self.metadata,
        });
        if self.kind == MessageKind::Schema {
            message["fields"] = self.fields.iter().map(FieldInfo::to_json).collect();
        }
        if let Some((id, is_delta)) = self.dictionary {
            message["dictionary"] = json!({ "id": id, "is_delta": is_delta });
        }
        if let Some(rows) = self.rows {
            message["rows"] = rows.into();
            message["compression"] = self.compression.map(|codec| codec.name()).into();
            message["nodes"] = self.nodes.iter().map(NodeInfo::to_json).collect();
            message["buffers"] = self.buffers.iter().map(BufferInfo::to_json).collect();
        }
        message
    }
}

impl FieldInfo {
    fn to_json(&self) -> Json {
        json!({
            "name": self.name,
            "type": self.data_type,
            "nullable": self.nullable,
            "dictionary": self.dictionary.as_ref().map(|(id, keys, ordered)| {
                json!({ "id": id, "index_type": keys, "is_ordered": ordered })
            }),
            "metadata": self.metadata,
            "children": self.children.iter().map(FieldInfo::to_json).collect::<Vec<_>>(),
        })
    }
}

impl NodeInfo {
    fn to_json(&self) -> Json {
        json!({ "field": &*self.field, "length": self.length, "null_count": self.null_count })
    }
}

impl BufferInfo {
    fn to_json(&self) -> Json {
        json!({ "field": &*self.field, "name": self.name, "offset": self.offset, "length": self.length })
    }
}
