//! Answers the page of `arrowwood view`.
//!
//! Read in this order: `state`, `endpoints` (the routes), `page` (its files), `cells` (a window of rows), `search` and
//! `views` (rows found or sorted), `seek`; `groups`, `sql_panel`, `export` (rows as files); `charts`; `file_layout`
//! (messages and buffers), and for one cell `exact_text`, `nested_value`, `image`, `value_condition`.
//!
//! It may use `http`, `ops`, `auth`, `catalog`, `session`, `read` and `sql`.

mod cells;
mod charts;
pub(crate) mod endpoints;
mod exact_text;
mod export;
mod file_layout;
mod groups;
mod image;
mod nested_value;
pub(crate) mod page;
mod search;
mod seek;
mod sql_panel;
mod state;
mod value_condition;
mod views;

pub(crate) use endpoints::ViewRoute;
pub(crate) use state::{ViewSession, ViewState};
