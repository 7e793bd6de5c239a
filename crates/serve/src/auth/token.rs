//! Checks and manages tokens, which give rights to read and write tables.
//!
//! A token is `aw_`, the id of its entry in the token file, `_`, and a secret of 256 random bits. The file has only a
//! salted hash of the secret, so that reading the file gives no access. [`add_token`], [`revoke_token`] and
//! [`list_tokens`] work on the file; a server's [`Tokens`] follow it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use arrowwood::mapping::{FileSystem, MutexExt, RwLockExt, os};
use arrowwood::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::rights::Rights;
use crate::change_time::ChangeTime;
use crate::hex::hex;
use crate::ops::log;

/// The interval between checks for changes of the file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum size of a token file in bytes, enough for some ten thousand tokens.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The beginning of each token.
const PREFIX: &str = "aw_";
/// The maximum length of a token's name in bytes.
const MAX_NAME_BYTES: usize = 100;
/// The number of random bytes in an id, which need not be secret.
const ID_BYTES: usize = 4;
/// The number of random bytes in a secret.
const SECRET_BYTES: usize = 32;
/// The number of random bytes in a salt.
const SALT_BYTES: usize = 16;
/// The length of a hash, which is SHA-256.
const HASH_BYTES: usize = 32;

/// A token as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// The name in lists and in the log.
    pub name: String,
    /// The rights of the token.
    pub rights: Rights,
    /// The part of the token by which its entry is found.
    id: String,
    /// Random bytes before the secret in the hash, so that equal hashes can't be computed in advance.
    salt: Vec<u8>,
    /// The hash of salt and secret, of [`HASH_BYTES`].
    hash: Vec<u8>,
}

impl TokenEntry {
    /// Generates a token with the given id. Returns its entry, and the token itself, which the entry does not contain.
    fn generate(id: String, name: &str, rights: Rights) -> Result<(TokenEntry, String)> {
        let secret = hex(&random::<SECRET_BYTES>()?);
        let salt = random::<SALT_BYTES>()?.to_vec();
        let hash = hash_secret(&salt, &secret).to_vec();
        let token = format!("{PREFIX}{id}_{secret}");
        Ok((TokenEntry { name: name.to_owned(), rights, id, salt, hash }, token))
    }

    /// Returns true if `secret` is the entry's. Takes the same time in both cases.
    fn has_secret(&self, secret: &str) -> bool {
        let secret_hash = hash_secret(&self.salt, secret);
        // The comparison of slices of different lengths would end at once.
        assert_eq!(secret_hash.len(), self.hash.len(), "a token's hash has the wrong length");
        secret_hash.ct_eq(&self.hash[..]).into()
    }

    fn to_json(&self) -> Json {
        json!({
            "name": self.name, "id": self.id, "read": self.rights.read, "write": self.rights.write,
            "salt": hex(&self.salt), "sha256": hex(&self.hash),
        })
    }

    fn from_json(json: &Json) -> Option<TokenEntry> {
        let rights = Rights { read: string_list(json.get("read")?)?, write: string_list(json.get("write")?)? };
        let hash = from_hex(json.get("sha256")?.as_str()?)?;
        if hash.len() != HASH_BYTES {
            return None;
        }
        Some(TokenEntry {
            name: json.get("name")?.as_str()?.to_owned(),
            rights,
            id: json.get("id")?.as_str()?.to_owned(),
            salt: from_hex(json.get("salt")?.as_str()?)?,
            hash,
        })
    }
}

fn string_list(json: &Json) -> Option<Vec<String>> {
    json.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn hash_secret(salt: &[u8], secret: &str) -> [u8; HASH_BYTES] {
    Sha256::new().chain_update(salt).chain_update(secret).finalize().into()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(e) => Err(Error::new(ErrorKind::Io, format!("asking the system for random bytes: {e}"))),
    }
}

/// Adds a token, creating the file if it does not exist, and returns it. It can't be retrieved later.
///
/// # Errors
/// `InvalidArgument` for a duplicate or invalid name, or an invalid pattern; `Io`.
pub fn add_token(file: impl AsRef<Path>, name: &str, rights: Rights) -> Result<String> {
    let file = file.as_ref();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "the name of a token has 1 to 100 characters, none of them control characters",
        ));
    }
    if rights.read.is_empty() && rights.write.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a token without rights is of no use; give --read or --write",
        ));
    }
    change_file(file, |tokens| {
        if tokens.iter().any(|token| token.name == name) {
            let message = format!("there is a token '{name}' already; revoke it first, or choose another name");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let id = unused_id(tokens, random_id)?;
        let (entry, token) = TokenEntry::generate(id, name, rights)?;
        tokens.push(entry);
        Ok(token)
    })
}

fn random_id() -> Result<String> {
    Ok(hex(&random::<ID_BYTES>()?))
}

/// Returns the first of the ids made by `next_id` that no entry has. Of two tokens with one id, only one would be
/// valid.
fn unused_id(tokens: &[TokenEntry], mut next_id: impl FnMut() -> Result<String>) -> Result<String> {
    loop {
        let id = next_id()?;
        if tokens.iter().all(|token| token.id != id) {
            return Ok(id);
        }
    }
}

/// Removes the token named `name`.
///
/// # Errors
/// `NotFound` if there is none; `Io`.
pub fn revoke_token(file: impl AsRef<Path>, name: &str) -> Result<()> {
    change_file(file.as_ref(), |tokens| {
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no token '{name}'")));
        }
        Ok(())
    })
}

/// Lists the tokens of a file.
///
/// # Errors
/// `NotFound`, `PermissionDenied` if others may write to the file, `InvalidData`, `Io`.
pub fn list_tokens(file: impl AsRef<Path>) -> Result<Vec<TokenEntry>> {
    let path = file.as_ref();
    let opened = File::open(path).map_err(|e| Error::io("opening the token file", &e).at(path))?;
    read(opened).map_err(|e| e.at(path))
}

fn read(file: File) -> Result<Vec<TokenEntry>> {
    let data = os::FileInfo::from_file(&file).map_err(|e| Error::io("asking for the token file's mode", &e))?;
    if os::is_writable_by_others(&data) {
        let message = "others may write to the token file, and could give themselves rights; chmod 600";
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }

    // Reads one byte more than the maximum: without it, the beginning of a longer file would look like a damaged file.
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(|e| Error::io("reading the token file", &e))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let message =
            format!("the token file has more than {MAX_FILE_BYTES} bytes; revoke tokens, or use several files");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    parse(&text)
        .ok_or_else(|| Error::new(ErrorKind::InvalidData, "this is not a token file: a list of tokens is expected"))
}

/// Parses the text of a token file. Returns `None` if it is damaged.
fn parse(text: &[u8]) -> Option<Vec<TokenEntry>> {
    let json: Json = serde_json::from_slice(text).ok()?;
    json.get("tokens")?.as_array()?.iter().map(TokenEntry::from_json).collect()
}

/// Returns the path with a suffix appended to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Changes the file in one step, and returns what `change` returns. Concurrent changes wait for each other, by the lock
/// of a file beside it: the token file itself is replaced.
fn change_file<T>(path: &Path, change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<T>) -> Result<T> {
    let lock = os::private(OpenOptions::new().write(true).create(true).truncate(false))
        .open(with_suffix(path, ".lock"))
        .map_err(|e| Error::io("opening the token file's lock", &e).at(path))?;
    lock.lock().map_err(|e| Error::io("locking the token file", &e).at(path))?;
    let mut tokens = match File::open(path) {
        Ok(file) => read(file).map_err(|e| e.at(path))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("opening the token file", &e).at(path)),
    };
    let changed = change(&mut tokens).map_err(|e| e.at(path))?;
    write(path, &tokens).map_err(|e| Error::io("writing the token file", &e).at(path))?;
    Ok(changed)
}

/// Writes a new file, which replaces the one at `path` once it is complete. A change that was made survives a power
/// cut.
fn write(path: &Path, tokens: &[TokenEntry]) -> io::Result<()> {
    let entries: Vec<_> = tokens.iter().map(TokenEntry::to_json).collect();
    let text = serde_json::to_string_pretty(&json!({"version": 1, "tokens": entries}))?;
    if text.len() as u64 >= MAX_FILE_BYTES {
        // The file in use stays readable.
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }

    let part = with_suffix(path, ".part");
    let mut file = os::private(OpenOptions::new().write(true).create(true).truncate(true)).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&part, path)?;

    // Without this, a revoked token could be valid again after a power cut.
    FileSystem::default().sync_parent(path)
}

/// The metadata by which a change of the file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    changed: ChangeTime,
    len: u64,
    inode: u64,
}

impl FileStamp {
    /// Reads the stamp of a file. Returns `None` if its metadata can't be read.
    fn read(path: &Path) -> Option<FileStamp> {
        let data = os::FileInfo::from_path(path).ok()?;
        let (_, inode) = os::file_identity(&data);
        Some(FileStamp { changed: ChangeTime::from_metadata(&data), len: data.len(), inode })
    }
}

/// The valid tokens of a server, from a file, which may change while the server runs.
///
/// Every lookup first checks whether the file has changed, unless that was checked within [`CHECK_INTERVAL`]. The
/// thread that finds a change reads the file and replaces all entries, and holds the lock of `file` from the check to
/// the replacement. Otherwise a thread that has read an older file slowly could replace newer entries by older ones.
/// `by_id` is locked only for a lookup or the replacement, never while the file is read. The locks are taken in the
/// order `file`, `by_id`.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// The path of the file; `None` for a token of this process only.
    path: Option<PathBuf>,
    /// The entries by their ids. There are none while the file can't be read.
    by_id: RwLock<HashMap<String, Arc<TokenEntry>>>,
    file: Mutex<FileState>,
    /// An entry without rights. Secrets with an unknown id are compared with it, so that the time of the answer does
    /// not show that the id is unknown.
    dummy: TokenEntry,
}

/// The state of the file when it was last read.
#[derive(Debug)]
struct FileState {
    last_check: Instant,
    /// The stamp, which was read before the tokens: a change in between is noticed at the next check.
    stamp: Option<FileStamp>,
    /// Set if the tokens are current as long as the file has the same stamp.
    is_final: bool,
    /// The reason why the file can't be read.
    problem: Option<String>,
}

impl FileState {
    fn new(stamp: Option<FileStamp>, is_final: bool) -> FileState {
        FileState { last_check: Instant::now(), stamp, is_final, problem: None }
    }
}

impl Tokens {
    /// Opens a token file.
    ///
    /// # Errors
    /// As [`list_tokens`].
    pub fn open(path: &Path) -> Result<Tokens> {
        let stamp = FileStamp::read(path);
        let file = FileState::new(stamp, stamp.is_some_and(|stamp| stamp.changed.is_distinct()));
        Tokens::new(Some(path.to_path_buf()), list_tokens(path)?, file)
    }

    /// Generates a token for this process only, which may read everything. Returns it as text, too.
    pub fn temporary() -> Result<(Tokens, String)> {
        let rights = Rights { read: vec!["*".into()], write: Vec::new() };
        let (entry, token) = TokenEntry::generate(random_id()?, "view", rights)?;
        Ok((Tokens::new(None, vec![entry], FileState::new(None, true))?, token))
    }

    fn new(path: Option<PathBuf>, entries: Vec<TokenEntry>, file: FileState) -> Result<Tokens> {
        let (dummy, _) = TokenEntry::generate(random_id()?, "", Rights::default())?;
        Ok(Tokens { path, by_id: RwLock::new(index_by_id(entries)), file: Mutex::new(file), dummy })
    }

    /// Returns the entry of `token`, if it is valid.
    pub fn find(&self, token: &str) -> Option<Arc<TokenEntry>> {
        self.reload_if_changed();
        let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let entry = self.by_id.read_ignoring_poison().get(id).cloned();
        let has_secret = entry.as_deref().unwrap_or(&self.dummy).has_secret(secret);
        if has_secret { entry } else { None }
    }

    /// Returns true if the entry still exists, unchanged.
    pub fn is_valid(&self, entry: &TokenEntry) -> bool {
        self.reload_if_changed();
        self.by_id.read_ignoring_poison().get(&entry.id).is_some_and(|current| **current == *entry)
    }

    /// Reads the file again if it may have changed since the last check. An unreadable file has no tokens.
    fn reload_if_changed(&self) {
        let Some(path) = &self.path else { return };
        let mut file = self.file.lock_ignoring_poison();
        if file.last_check.elapsed() < CHECK_INTERVAL {
            return;
        }
        file.last_check = Instant::now();
        if !file.is_final || file.stamp != FileStamp::read(path) {
            self.read_again(path, &mut file);
        }
    }

    /// Reads the file again.
    pub fn reload(&self) {
        if let Some(path) = &self.path {
            self.read_again(path, &mut self.file.lock_ignoring_poison());
        }
    }

    /// Returns true if the file can't be read.
    pub fn has_problem(&self) -> bool {
        self.reload_if_changed();
        self.file.lock_ignoring_poison().problem.is_some()
    }

    /// Reads the file, and replaces all entries. The caller holds the lock of `file`.
    fn read_again(&self, path: &Path, file: &mut FileState) {
        let stamp = FileStamp::read(path);
        let is_distinct = stamp.is_some_and(|stamp| stamp.changed.is_distinct());
        let (tokens, problem) = match list_tokens(path) {
            Ok(tokens) => (tokens, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        *self.by_id.write_ignoring_poison() = index_by_id(tokens);
        file.stamp = stamp;
        // After an error the file is read again, as the cause may be temporary, such as a lack of file descriptors.
        file.is_final = problem.is_none() && is_distinct;
        if let Some(problem) = &problem
            && file.problem.as_ref() != Some(problem)
        {
            log::message(format_args!("no token is valid: {problem}"));
        }
        file.problem = problem;
    }
}

fn index_by_id(entries: Vec<TokenEntry>) -> HashMap<String, Arc<TokenEntry>> {
    entries.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn rights(read: &[&str], write: &[&str]) -> Rights {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Rights { read: list(read), write: list(write) }
    }

    #[test]
    fn token_is_found_only_by_its_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        let token = add_token(&file, "s1", rights(&["a*"], &["ab"])).unwrap();
        let other = add_token(&file, "s2", rights(&[], &["*"])).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let found = tokens.find(&token).unwrap();
        assert_eq!((found.name.as_str(), &found.rights), ("s1", &rights(&["a*"], &["ab"])));
        assert_eq!(tokens.find(&other).unwrap().name, "s2");
        let mixed = format!("{}{}", &token[..12], &other[12..]);
        for wrong in ["", "aw_", "aw__", "aw", &token[..75], &format!("{token}0"), &mixed, &token.to_uppercase()] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&token[12..]) && text.contains("sha256"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    /// With ten thousand tokens, one in a hundred files would have an id twice.
    #[test]
    fn no_two_tokens_have_one_id() {
        let (entry, _) = TokenEntry::generate("0a".into(), "s1", Rights::all()).unwrap();
        let mut ids = ["0a", "0a", "0b"].map(str::to_owned).into_iter();
        assert_eq!(unused_id(&[entry], || Ok(ids.next().unwrap())).unwrap(), "0b");
    }

    #[track_caller]
    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what} is not seen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn tokens_follow_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        let token = add_token(&file, "s1", Rights::all()).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let entry = tokens.find(&token).unwrap();
        assert!(tokens.is_valid(&entry));
        assert_eq!(add_token(&file, "s1", Rights::all()).unwrap_err().kind(), ErrorKind::InvalidArgument);
        revoke_token(&file, "s1").unwrap();
        assert_eq!(revoke_token(&file, "s1").unwrap_err().kind(), ErrorKind::NotFound);
        wait_until("the end of a revoked token", || tokens.find(&token).is_none());
        assert!(!tokens.is_valid(&entry));
        // An unreadable file has no tokens; they are back once it is readable.
        let token = add_token(&file, "s2", Rights::all()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(list_tokens(&file).unwrap_err().kind(), ErrorKind::PermissionDenied);
        wait_until("a check of the current file", || {
            assert!(tokens.find(&token).is_none());
            tokens.file.lock().unwrap().stamp == FileStamp::read(&file)
        });
    }

    /// A thread reads an older list slowly, through a pipe instead of the file, while another one reads a newer list.
    #[test]
    fn newer_token_list_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [file, older, pipe, named] = ["tokens.json", "older.json", "pipe", "named"].map(path);
        add_token(&file, "s0", Rights::all()).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let in_older = add_token(&older, "s1", Rights::all()).unwrap();
        let older = fs::read(&older).unwrap();
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap();
        assert!(made.success());
        fs::hard_link(&pipe, &named).unwrap();
        // The file is not checked again before the interval is over.
        let wait = || std::thread::sleep(CHECK_INTERVAL + Duration::from_millis(50));
        std::thread::scope(|scope| {
            fs::rename(&pipe, &file).unwrap();
            wait();
            scope.spawn(|| tokens.find(&in_older));
            // Waits until the thread has opened the pipe.
            let mut pipe = OpenOptions::new().write(true).open(&named).unwrap();
            fs::remove_file(&file).unwrap();
            let in_newer = add_token(&file, "s2", Rights::all()).unwrap();
            wait();
            let (tokens, token) = (&tokens, in_newer.clone());
            let other = scope.spawn(move || tokens.find(&token).is_some());
            // If the thread did not wait for the first one, it would be done at this point.
            wait();
            pipe.write_all(&older).unwrap();
            drop(pipe);
            assert!(other.join().unwrap());
            wait();
            assert!(tokens.find(&in_older).is_none(), "a token that was revoked is valid again");
            assert!(tokens.find(&in_newer).is_some());
        });
    }

    #[test]
    fn invalid_token_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        assert_eq!(Tokens::open(&file).unwrap_err().kind(), ErrorKind::NotFound);
        for text in [
            "",
            "{}",
            r#"{"tokens": [{}]}"#,
            r#"{"tokens": [{"name": "a", "id": "1", "read": [], "write": [], "salt": "", "sha256": "00"}]}"#,
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(list_tokens(&file).unwrap_err().kind(), ErrorKind::InvalidData, "{text}");
        }
        assert_eq!(add_token(&file, "", Rights::all()).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(add_token(&file, "x", Rights::default()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_file_that_is_too_long_is_not_called_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        add_token(&file, "s1", Rights::all()).unwrap();
        let mut text = fs::read(&file).unwrap();
        text.resize(MAX_FILE_BYTES as usize, b' ');
        fs::write(&file, &text).unwrap();
        assert_eq!(list_tokens(&file).unwrap().len(), 1);
        text.push(b' ');
        fs::write(&file, &text).unwrap();
        let error = list_tokens(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("more than 8388608 bytes"), "{error}");
    }
}
