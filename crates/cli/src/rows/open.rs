//! Opens paths, pipes and standard input as datasets.

use std::io::Read;
use std::path::{Path, PathBuf};

use arrowwood::{Bytes, Dataset, OpenOptions, concat_opened};

use crate::shell::{CliResult, is_dash, is_pipe, reader, reading_error, stdin_or_path};

/// Opens all `paths` as one dataset.
pub(crate) fn open(paths: &[PathBuf]) -> CliResult<Dataset> {
    let opened = paths.iter().map(|path| open_one(path)).collect::<CliResult<Vec<_>>>()?;
    let names: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    Ok(concat_opened(&names, &opened)?)
}

/// Opens a path, or standard input for `-`.
pub(crate) fn open_one(path: &Path) -> CliResult<Dataset> {
    if cannot_be_mapped(path)? {
        return Ok(OpenOptions::new().bytes(read_bytes(path)?).map_err(|e| e.at(stdin_or_path(path)))?);
    }
    Ok(OpenOptions::new().path(path)?)
}

/// Returns true if a path has to be read to its end before it can be opened.
pub(crate) fn cannot_be_mapped(path: &Path) -> CliResult<bool> {
    Ok(is_dash(path) || is_pipe(path)?)
}

/// Reads all bytes of an Arrow stream or file that can't be mapped. Other input is refused by its first bytes, since it
/// may be endless.
pub(crate) fn read_bytes(path: &Path) -> CliResult<Bytes> {
    let mut source = reader(path)?;
    let mut bytes = Vec::new();
    for limit in HEAD_LIMITS {
        assert!(bytes.len() as u64 <= limit, "the limits of the first bytes decrease");
        let missing = limit - bytes.len() as u64;
        source.by_ref().take(missing).read_to_end(&mut bytes).map_err(|e| reading_error(&e, path))?;
        let is_all = (bytes.len() as u64) < limit;
        if is_all || bytes.starts_with(b"ARROW1") {
            break;
        }
        match OpenOptions::new().partial(true).bytes(Bytes::from(bytes.clone())) {
            Ok(_) => break,
            // The schema may be larger than these bytes, but not than all of the limits.
            Err(e) if Some(&limit) == HEAD_LIMITS.last() || is_text(&bytes) => {
                return Err(e.at(stdin_or_path(path)).into());
            }
            Err(_) => (),
        }
    }
    source.read_to_end(&mut bytes).map_err(|e| reading_error(&e, path))?;
    Ok(Bytes::from(bytes))
}

/// The numbers of bytes to read of a possibly endless input until its schema is complete, which it nearly always is
/// after the first.
const HEAD_LIMITS: [u64; 4] = [4 << 10, 64 << 10, 4 << 20, 64 << 20];

/// Returns true if the bytes may be text. A message has zeros in its lengths.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && !bytes.starts_with(&[0xff])
}
