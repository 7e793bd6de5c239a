//! Checks and manages tokens, which give rights to read and write tables.
//!
//! A token is `aw_`, the number of its entry in the file, and 256 random bits. The file has only a salted hash of these
//! bits, so that reading the file gives no access.

use arrowwood::mapping::{MutexExt, RwLockExt};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime};

use arrowwood::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::log;

/// The interval between checks for changes of the file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The age in seconds from which a change of the file has another time than the next change.
const SETTLED_AGE: u64 = 1;
/// The maximum size of a token file in bytes, enough for some ten thousand tokens.
const MAX_FILE_LEN: u64 = 8 << 20;

/// The rights of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Patterns of readable tables; `*` matches any characters.
    pub read: Vec<String>,
    /// Patterns of writable tables.
    pub write: Vec<String>,
}

impl Rights {
    /// Returns the rights to read and write all tables.
    pub fn all() -> Rights {
        Rights { read: vec!["*".into()], write: vec!["*".into()] }
    }

    /// Returns true if table `name` may be read.
    pub fn may_read(&self, name: &str) -> bool {
        self.read.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Returns true if table `name` may be written.
    pub fn may_write(&self, name: &str) -> bool {
        self.write.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Returns true if no table may be written.
    pub(crate) fn writes_nothing(&self) -> bool {
        self.write.is_empty()
    }

    /// Returns true if every table may be read.
    pub(crate) fn may_read_all(&self) -> bool {
        self.read.iter().any(|pattern| pattern == "*")
    }
}

/// Returns true if `pattern`, in which `*` matches any bytes, matches `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut pattern_index = 0;
    let mut name_index = 0;
    // The index of the last star, and of the first byte of the name that it does not match.
    let mut last_star = None;
    while name_index < name.len() {
        match pattern.get(pattern_index) {
            Some(b'*') => {
                last_star = Some((pattern_index, name_index));
                pattern_index += 1;
            }
            Some(byte) if *byte == name[name_index] => {
                pattern_index += 1;
                name_index += 1;
            }
            _ => {
                // The last star has to match one byte more.
                let Some((star, end)) = last_star else { return false };
                last_star = Some((star, end + 1));
                pattern_index = star + 1;
                name_index = end + 1;
            }
        }
    }
    pattern[pattern_index..].iter().all(|byte| *byte == b'*')
}

/// A token as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// The name in lists and in the log.
    pub name: String,
    /// The rights of the token.
    pub rights: Rights,
    id: String,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl TokenEntry {
    /// Returns true if `secret` is the entry's. Takes the same time in both cases.
    fn has_secret(&self, secret: &str) -> bool {
        let hash = hash(&self.salt, secret);
        // Slices of different lengths would be compared in no time.
        assert_eq!(hash.len(), self.hash.len(), "a token's hash has the wrong length");
        hash.ct_eq(&self.hash[..]).into()
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
        if hash.len() != 32 {
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

fn hash(salt: &[u8], secret: &str) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(secret).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
    if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
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
    let id = hex(&random::<4>()?);
    let secret = hex(&random::<32>()?);
    let salt = random::<16>()?.to_vec();
    change_file(file, |tokens| {
        if tokens.iter().any(|token| token.name == name) {
            let message = format!("there is a token '{name}' already; revoke it first, or choose another name");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let hash = hash(&salt, &secret).to_vec();
        tokens.push(TokenEntry { name: name.into(), rights, id: id.clone(), salt, hash });
        Ok(())
    })?;
    Ok(format!("aw_{id}_{secret}"))
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
    let data = file.metadata().map_err(|e| Error::io("asking for the token file's mode", &e))?;
    if data.mode() & 0o022 != 0 {
        let message = "others may write to the token file, and could give themselves rights; chmod 600";
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    let mut text = String::new();
    file.take(MAX_FILE_LEN).read_to_string(&mut text).map_err(|e| Error::io("reading the token file", &e))?;
    parse(&text)
        .ok_or_else(|| Error::new(ErrorKind::InvalidData, "this is not a token file: a list of tokens is expected"))
}

/// Parses the text of a token file. Returns `None` if it is damaged.
fn parse(text: &str) -> Option<Vec<TokenEntry>> {
    let json: Json = serde_json::from_str(text).ok()?;
    json.get("tokens")?.as_array()?.iter().map(TokenEntry::from_json).collect()
}

/// Returns the path with a suffix appended to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Changes the file in one step. Concurrent changes wait for each other.
fn change_file(path: &Path, change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<()>) -> Result<()> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(with_suffix(path, ".lock"))
        .map_err(|e| Error::io("opening the token file's lock", &e).at(path))?;
    lock.lock().map_err(|e| Error::io("locking the token file", &e).at(path))?;
    let mut tokens = match File::open(path) {
        Ok(file) => read(file).map_err(|e| e.at(path))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("opening the token file", &e).at(path)),
    };
    change(&mut tokens).map_err(|e| e.at(path))?;
    write(path, &tokens).map_err(|e| Error::io("writing the token file", &e).at(path))
}

/// Writes a new file, which replaces the one at `path` once it is complete.
fn write(path: &Path, tokens: &[TokenEntry]) -> io::Result<()> {
    let entries: Vec<_> = tokens.iter().map(TokenEntry::to_json).collect();
    let text = serde_json::to_string_pretty(&json!({"version": 1, "tokens": entries}))?;
    let part = with_suffix(path, ".part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&part, path)
}

/// The metadata that shows if a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    /// The time of the last change in seconds and nanoseconds. Programs can set the time of the last write, but not this one.
    changed: (i64, i64),
    len: u64,
    inode: u64,
}

impl FileStamp {
    /// Reads the stamp of a file. Returns `None` if its metadata can't be read.
    fn read(path: &Path) -> Option<FileStamp> {
        let data = fs::metadata(path).ok()?;
        Some(FileStamp { changed: (data.ctime(), data.ctime_nsec()), len: data.len(), inode: data.ino() })
    }

    /// Returns true if later changes of the file have another time. File times have the resolution of the system's clock
    /// tick.
    fn is_settled(&self) -> bool {
        let (seconds, _) = self.changed;
        match (u64::try_from(seconds), SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)) {
            (Ok(seconds), Ok(now)) => seconds + SETTLED_AGE < now.as_secs(),
            // A time before 1970 is wrong.
            _ => false,
        }
    }
}

/// The tokens of a file that may change.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// The path of the file; `None` for a token of this process only.
    path: Option<PathBuf>,
    by_id: RwLock<HashMap<String, Arc<TokenEntry>>>,
    file: Mutex<FileState>,
    /// An entry without rights, which secrets with unknown ids are compared with, so that the time does not show that an
    /// id is unknown.
    dummy: TokenEntry,
}

/// The state of the file when it was last read.
#[derive(Debug)]
struct FileState {
    last_check: Instant,
    stamp: Option<FileStamp>,
    /// Set if the file need not be read again as long as it has the same stamp.
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
        // The stamp is read before the tokens: a change in between is noticed at the next check.
        let stamp = FileStamp::read(path);
        let file = FileState::new(stamp, stamp.is_some_and(|stamp| stamp.is_settled()));
        let by_id = RwLock::new(by_id(list_tokens(path)?));
        let rights = Rights::default();
        let salt = random::<16>()?.to_vec();
        let hash = random::<32>()?.to_vec();
        let dummy = TokenEntry { name: String::new(), rights, id: String::new(), salt, hash };
        Ok(Tokens { path: Some(path.to_path_buf()), by_id, file: Mutex::new(file), dummy })
    }

    /// Creates a token for this process only, which may read everything. Returns it as text, too.
    pub fn temporary() -> Result<(Tokens, String)> {
        let id = hex(&random::<4>()?);
        let secret = hex(&random::<32>()?);
        let salt = random::<16>()?.to_vec();
        let rights = Rights { read: vec!["*".into()], write: Vec::new() };
        let hash = hash(&salt, &secret).to_vec();
        let entry = TokenEntry { name: "view".into(), rights, id: id.clone(), salt, hash };
        let dummy = TokenEntry { name: String::new(), rights: Rights::default(), ..entry.clone() };
        let by_id = RwLock::new(by_id(vec![entry]));
        let file = Mutex::new(FileState::new(None, true));
        Ok((Tokens { path: None, by_id, file, dummy }, format!("aw_{id}_{secret}")))
    }

    /// Returns the entry of `token`, if it is valid.
    pub fn find(&self, token: &str) -> Option<Arc<TokenEntry>> {
        self.reload_if_changed();
        let (id, secret) = token.strip_prefix("aw_")?.split_once('_')?;
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

    /// Reads the file under the lock of `file`, so that no thread replaces the tokens with older ones.
    fn read_again(&self, path: &Path, file: &mut FileState) {
        let stamp = FileStamp::read(path);
        let (tokens, problem) = match list_tokens(path) {
            Ok(tokens) => (tokens, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        *self.by_id.write_ignoring_poison() = by_id(tokens);
        file.stamp = stamp;
        // After an error the file is read again, as the cause may be temporary, such as a lack of file descriptors.
        file.is_final = problem.is_none() && stamp.is_some_and(|stamp| stamp.is_settled());
        if let Some(problem) = &problem
            && file.problem.as_ref() != Some(problem)
        {
            log::message(format_args!("no token is valid: {problem}"));
        }
        file.problem = problem;
    }
}

fn by_id(tokens: Vec<TokenEntry>) -> HashMap<String, Arc<TokenEntry>> {
    tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
            "{\"tokens\": [{}]}",
            "{\"tokens\": [{\"name\": \"a\", \"id\": \"1\", \"read\": [], \"write\": [], \"salt\": \"\", \"sha256\": \"00\"}]}",
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(list_tokens(&file).unwrap_err().kind(), ErrorKind::InvalidData, "{text}");
        }
        assert_eq!(add_token(&file, "", Rights::all()).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(add_token(&file, "x", Rights::default()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn stars_match_any_characters() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "ticks", true),
            ("ticks", "ticks", true),
            ("ticks", "ticks2", false),
            ("tick", "ticks", false),
            ("t*s", "ticks", true),
            ("t*s", "tick", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a**", "a", true),
            ("", "", true),
            ("", "a", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
