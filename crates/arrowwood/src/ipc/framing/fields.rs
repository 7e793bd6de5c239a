//! The numbers of the fields of Arrow's flatbuffer tables, in one module for each table.
//!
//! A field's number is its position in the declaration of its table in Message.fbs, Schema.fbs or File.fbs. A union
//! takes two numbers: the first is the type of its value, the second the value.

// Message.fbs

pub(in crate::ipc) mod message {
    pub const VERSION: usize = 0;
    pub const HEADER_TYPE: usize = 1;
    pub const HEADER: usize = 2;
    pub const BODY_LENGTH: usize = 3;
    pub const CUSTOM_METADATA: usize = 4;
}

pub(in crate::ipc) mod dictionary_batch {
    pub const ID: usize = 0;
    pub const DATA: usize = 1;
    pub const IS_DELTA: usize = 2;
}

pub(in crate::ipc) mod record_batch {
    pub const LENGTH: usize = 0;
    pub const NODES: usize = 1;
    pub const BUFFERS: usize = 2;
    pub const COMPRESSION: usize = 3;
    pub const VARIADIC_BUFFER_COUNTS: usize = 4;
}

pub(in crate::ipc) mod body_compression {
    pub const CODEC: usize = 0;
    pub const METHOD: usize = 1;
}

// File.fbs

pub(in crate::ipc) mod footer {
    pub const SCHEMA: usize = 1;
    pub const DICTIONARIES: usize = 2;
    pub const RECORD_BATCHES: usize = 3;
    pub const CUSTOM_METADATA: usize = 4;
}

// Schema.fbs

pub(in crate::ipc) mod schema {
    pub const ENDIANNESS: usize = 0;
    pub const FIELDS: usize = 1;
    pub const CUSTOM_METADATA: usize = 2;
}

pub(in crate::ipc) mod field {
    pub const NAME: usize = 0;
    pub const NULLABLE: usize = 1;
    pub const TYPE_NUMBER: usize = 2;
    pub const TYPE: usize = 3;
    pub const DICTIONARY: usize = 4;
    pub const CHILDREN: usize = 5;
    pub const CUSTOM_METADATA: usize = 6;
}

pub(in crate::ipc) mod dictionary_encoding {
    pub const ID: usize = 0;
    pub const INDEX_TYPE: usize = 1;
    pub const IS_ORDERED: usize = 2;
}

pub(in crate::ipc) mod key_value {
    pub const KEY: usize = 0;
    pub const VALUE: usize = 1;
}

pub(in crate::ipc) mod int {
    pub const BIT_WIDTH: usize = 0;
    pub const IS_SIGNED: usize = 1;
}

pub(in crate::ipc) mod floating_point {
    pub const PRECISION: usize = 0;
}

pub(in crate::ipc) mod decimal {
    pub const PRECISION: usize = 0;
    pub const SCALE: usize = 1;
    pub const BIT_WIDTH: usize = 2;
}

pub(in crate::ipc) mod date {
    pub const UNIT: usize = 0;
}

pub(in crate::ipc) mod time {
    pub const UNIT: usize = 0;
    pub const BIT_WIDTH: usize = 1;
}

pub(in crate::ipc) mod timestamp {
    pub const UNIT: usize = 0;
    pub const TIMEZONE: usize = 1;
}

pub(in crate::ipc) mod duration {
    pub const UNIT: usize = 0;
}

pub(in crate::ipc) mod interval {
    pub const UNIT: usize = 0;
}

pub(in crate::ipc) mod fixed_size_binary {
    pub const BYTE_WIDTH: usize = 0;
}

pub(in crate::ipc) mod fixed_size_list {
    pub const LIST_SIZE: usize = 0;
}

pub(in crate::ipc) mod map {
    pub const KEYS_SORTED: usize = 0;
}

pub(in crate::ipc) mod union {
    pub const MODE: usize = 0;
    pub const TYPE_IDS: usize = 1;
}
