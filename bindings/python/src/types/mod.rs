//! Types of columns as Python sees them.
//!
//! The modules, in reading order:
//! - `schema`: `Schema` and `Field`;
//! - `tensor`: lists of one length with a shape.
//!
//! Uses `exchange`, `arguments` and `interpreter`.

pub mod schema;
pub mod tensor;
