//! Sends the picture in a binary cell to the browser. Pictures are recognised by their first bytes; bytes of other
//! formats are never sent, so that no cell becomes markup or a program.

use arrowwood::Value;
use hyper::{Response, StatusCode};

use super::cells::one_column;
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, ResponseBody, Result, ResultExt, with_type};

pub(crate) const PARAMETERS: &[&str] = &["row", "at"];

/// The maximum size of a picture in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Returns the media type of a picture; `None` for other bytes, and for more than [`MAX_BYTES`].
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        _ if bytes.len() > MAX_BYTES => None,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        // The size of the file is between the two words.
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the picture in a cell. Blocks.
pub(crate) fn image(snapshot: &Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let rows = &snapshot.rows;
    let column = one_column(rows, query)?;
    let index = query.number::<u64>("row")?.and_then(|row| row.checked_sub(rows.first_row()));
    let Some(index) = index.filter(|index| rows.len().is_ok_and(|len| *index < len)) else {
        return Err(Problem::not_found("there is no such row"));
    };
    let row = rows.row(index).or_table_problem()?;
    let Value::Bytes(bytes) = row.get(column).or_table_problem()? else {
        return Err(Problem::not_found("the cell has no bytes"));
    };
    let Some(media_type) = media_type(bytes) else {
        let detail = format!("the cell is no PNG, JPEG, GIF or WebP of at most {MAX_BYTES} bytes");
        return Err(Problem::not_found(detail));
    };
    Ok(with_type(StatusCode::OK, media_type, ResponseBody::new(bytes.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_four_image_formats_are_recognised() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n rest"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
            (b"<!doctype html>\x89PNG\r\n\x1a\n", None),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"GIF88a", None),
            (b"", None),
        ] {
            assert_eq!(media_type(bytes), expected, "{bytes:?}");
        }
        let mut large = b"GIF89a".to_vec();
        large.resize(MAX_BYTES + 1, 0);
        assert_eq!(media_type(&large), None);
    }
}
