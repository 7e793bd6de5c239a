//! Converts single values and columns between Python and Arrow.
//!
//! The modules, in reading order:
//! - `to_object`: a cell as a Python object;
//! - `to_value`: a Python object as a value, and as a column of some type stores it;
//! - `column_builder`: values as an array;
//! - `infer`: the type that fits values;
//! - `from_numpy`: a NumPy array as an Arrow array;
//! - `to_numpy`: columns as NumPy sees them.
//!
//! Knows no dataset; uses `types`, `exchange` and `interpreter`.

pub mod column_builder;
pub mod from_numpy;
pub mod infer;
pub mod to_numpy;
pub mod to_object;
pub mod to_value;
