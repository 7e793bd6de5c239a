//! Answers the page of `arrowwood view`.
//!
//! Read in this order: `state`, `endpoints` (the routes), `page` (its files), `cells` (a window of rows), `search` and `views`
//! (rows found or sorted), `seek`; `groups`, `sql_panel`, `export` (rows as files); `charts`; `file_layout` (messages and
//! buffers), and for one cell `exact_text`, `nested_value`, `image`, `value_condition`.
//!
//! It may use `http`, `ops`, `auth`, `catalog`, `session`, `read` and `sql`.

pub(crate) mod cells;
pub(crate) mod charts;
pub(crate) mod endpoints;
pub(crate) mod exact_text;
pub(crate) mod export;
pub(crate) mod file_layout;
pub(crate) mod groups;
pub(crate) mod image;
pub(crate) mod nested_value;
pub(crate) mod page;
pub(crate) mod search;
pub(crate) mod seek;
pub(crate) mod sql_panel;
pub(crate) mod state;
pub(crate) mod value_condition;
pub(crate) mod views;
