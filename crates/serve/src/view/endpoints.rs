//! The routes of the page, below the route of a table.

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::Value as Json;

use super::cells;
use super::charts::{downsample, downsample_time, statistics};
use super::export::{self, ExportFormat};
use super::file_layout;
use super::groups::{self, Grouping};
use super::image;
use super::search::{self, Search};
use super::seek;
use super::sql_panel;
use super::state::ViewSession;
use crate::catalog::{Snapshot, snapshot};
use crate::http::{Query, ResponseBody, Result, allow, header_name, json_response, with_type};
use crate::read::RowFormat;
use crate::sql::endpoint;

/// A route below a table for the page of `arrowwood view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewRoute {
    Bins,
    Cell,
    Cells,
    Groups,
    Image,
    Messages,
    Save,
    Seek,
    Sql,
    Statistics,
    Text,
    Views,
}

impl ViewRoute {
    pub fn parse(segment: &str) -> Option<ViewRoute> {
        Some(match segment {
            "bins" => ViewRoute::Bins,
            "cell" => ViewRoute::Cell,
            "cells" => ViewRoute::Cells,
            "groups" => ViewRoute::Groups,
            "image" => ViewRoute::Image,
            "messages" => ViewRoute::Messages,
            "save" => ViewRoute::Save,
            "seek" => ViewRoute::Seek,
            "sql" => ViewRoute::Sql,
            "statistics" => ViewRoute::Statistics,
            "text" => ViewRoute::Text,
            "views" => ViewRoute::Views,
            _ => return None,
        })
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            ViewRoute::Bins => downsample::PARAMETERS,
            ViewRoute::Cell | ViewRoute::Text => file_layout::CELL_PARAMETERS,
            ViewRoute::Cells => cells::PARAMETERS,
            ViewRoute::Groups => groups::PARAMETERS,
            ViewRoute::Image => image::PARAMETERS,
            ViewRoute::Messages => file_layout::PARAMETERS,
            ViewRoute::Save => export::PARAMETERS,
            ViewRoute::Seek => seek::PARAMETERS,
            ViewRoute::Sql => endpoint::PARAMETERS,
            ViewRoute::Statistics => statistics::PARAMETERS,
            ViewRoute::Views => search::PARAMETERS,
        }
    }
}

/// Answers a request of the page. All of the answer comes from one [`Snapshot`].
pub(crate) async fn answer(
    page: ViewSession,
    parts: &Parts,
    name: &str,
    route: ViewRoute,
) -> Result<Response<ResponseBody>> {
    let session = &page.session;
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), &[route.parameters(), &[snapshot::PARAMETER]].concat())?;
    let table = session.table(name).await?;
    let snapshot_query = query.clone();
    let snapshot = session.run_blocking(move |_| Snapshot::load_for_query(table, &snapshot_query)).await?;
    let id = snapshot.id.clone();
    let mut response = answer_from(page, snapshot, query, route).await?;
    response.headers_mut().insert(header_name(snapshot::HEADER), snapshot::header_value(id)?);
    Ok(response)
}

async fn answer_from(
    page: ViewSession,
    snapshot: Snapshot,
    query: Query,
    route: ViewRoute,
) -> Result<Response<ResponseBody>> {
    let session = &page.session;
    let json = match route {
        ViewRoute::Bins if query.has("over") => downsample_time::bins(session, snapshot, &query).await?,
        ViewRoute::Bins => downsample::bins(session, snapshot, &query).await?,
        ViewRoute::Cell => {
            session.run_blocking(move |_| if_current(&snapshot, file_layout::cell(&snapshot, &query))).await?
        }
        ViewRoute::Cells => {
            let state = page.state.clone();
            session.run_blocking(move |_| cells::cells(&state.views, &snapshot, &query)).await?
        }
        ViewRoute::Groups => {
            if let Some(form) = ExportFormat::from_query(&query)? {
                return groups::save(&page, snapshot, query, form).await;
            }
            let grouping =
                session.run_blocking(move |session| Grouping::from_query(snapshot, &query, session.clone())).await?;
            return Ok(json_lines(ResponseBody::steps(grouping, Grouping::step)));
        }
        ViewRoute::Image => return session.run_blocking(move |_| image::image(&snapshot, &query)).await,
        ViewRoute::Messages => {
            session.run_blocking(move |_| if_current(&snapshot, file_layout::messages(&snapshot, &query))).await?
        }
        ViewRoute::Save => return export::save(&page, snapshot, &query).await,
        ViewRoute::Seek => seek::seek(&page, snapshot, &query).await?,
        ViewRoute::Sql => return sql_panel::sql(&page, snapshot, &query).await,
        ViewRoute::Statistics => statistics::statistics(session, snapshot, &query).await?,
        ViewRoute::Text => {
            return session.run_blocking(move |session| file_layout::text(session, &snapshot, &query)).await;
        }
        ViewRoute::Views => {
            let search_page = page.clone();
            let search = session.run_blocking(move |_| Search::from_query(snapshot, &query, search_page)).await?;
            return Ok(json_lines(ResponseBody::steps(search, Search::step)));
        }
    };
    Ok(json_response(StatusCode::OK, &json))
}

fn json_lines(body: ResponseBody) -> Response<ResponseBody> {
    with_type(StatusCode::OK, RowFormat::JsonLines.media_type(), body)
}

/// Returns what was read from the files at a snapshot's path, if these are still the snapshot's. Blocks.
fn if_current(snapshot: &Snapshot, result: Result<Json>) -> Result<Json> {
    snapshot.check_current()?;
    result
}
