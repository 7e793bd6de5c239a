//! Tokens: rights to read and write tables.
//!
//! A token is `aw_`, the number of its entry in the file, and 256 random bits. The file has a salted hash of it, so
//! reading the file gives no access.

use arrowwood::mapping::{MutexExt, RwLockExt};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime};

use arrowwood::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::log;

/// The interval of checks for changes of the file.
const LOOK: Duration = Duration::from_millis(500);
/// The age in seconds from which a change of the file is told apart from the next one.
const SETTLED: u64 = 1;
/// The maximum size of a token file in bytes; some ten thousand tokens.
const LARGEST: u64 = 8 << 20;

/// The rights of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Patterns of readable tables; `*` matches any characters.
    pub read: Vec<String>,
    /// Patterns of writable tables.
    pub write: Vec<String>,
}

impl Rights {
    /// The rights to everything.
    pub fn all() -> Rights {
        Rights { read: vec!["*".into()], write: vec!["*".into()] }
    }

    /// Whether table `name` may be read.
    pub fn may_read(&self, name: &str) -> bool {
        self.read.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Whether table `name` may be written.
    pub fn may_write(&self, name: &str) -> bool {
        self.write.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Whether no table may be written.
    pub(crate) fn writes_nothing(&self) -> bool {
        self.write.is_empty()
    }

    /// Whether every table may be read.
    pub(crate) fn may_read_all(&self) -> bool {
        self.read.iter().any(|pattern| pattern == "*")
    }
}

/// Whether `pattern`, in which `*` matches any bytes, matches `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    let mut from = 0;
    // The position of the last star, and the first byte of the name not matched by it.
    let mut star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                at = place + 1;
                from = taken + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// A token as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// Its name in lists and in the log.
    pub name: String,
    /// Its rights.
    pub rights: Rights,
    id: String,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl TokenEntry {
    /// Whether `secret` is the entry's; takes the same time either way.
    fn fits(&self, secret: &str) -> bool {
        hash(&self.salt, secret).ct_eq(&self.hash[..]).into()
    }

    fn to_json(&self) -> Json {
        json!({
            "name": self.name, "id": self.id, "read": self.rights.read, "write": self.rights.write,
            "salt": hex(&self.salt), "sha256": hex(&self.hash),
        })
    }

    fn from_json(json: &Json) -> Option<TokenEntry> {
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        let list = |name: &str| {
            let items = json.get(name)?.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        let rights = Rights { read: list("read")?, write: list("write")? };
        let hash = of_hex(&text("sha256")?).filter(|hash| hash.len() == 32)?;
        Some(TokenEntry { name: text("name")?, rights, id: text("id")?, salt: of_hex(&text("salt")?)?, hash })
    }
}

fn hash(salt: &[u8], secret: &str) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(secret).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?, 16).ok()).collect()
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |e: getrandom::Error| Error::new(ErrorKind::Io, format!("asking the system for random bytes: {e}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

// ---- the file ----

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
    change(file, |tokens| {
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
    change(file.as_ref(), |tokens| {
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no token '{name}'"));
        if tokens.len() < before { Ok(()) } else { Err(missing()) }
    })
}

/// The tokens of a file.
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
    file.take(LARGEST).read_to_string(&mut text).map_err(|e| Error::io("reading the token file", &e))?;
    let damaged = || Error::new(ErrorKind::InvalidData, "this is not a token file: a list of tokens is expected");
    let parsed: Json = serde_json::from_str(&text).map_err(|_| damaged())?;
    let entries = parsed.get("tokens").and_then(Json::as_array).ok_or_else(damaged)?;
    entries.iter().map(|entry| TokenEntry::from_json(entry).ok_or_else(damaged)).collect()
}

/// The path with a suffix appended to its name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Changes the file in one step; concurrent changes wait.
fn change(path: &Path, work: impl FnOnce(&mut Vec<TokenEntry>) -> Result<()>) -> Result<()> {
    let failed = |doing: &str, e: &std::io::Error| Error::io(doing, e).at(path);
    let lock = beside(path, ".lock");
    let mut create = OpenOptions::new();
    create.write(true).create(true).truncate(false).mode(0o600);
    let lock = create.open(&lock).map_err(|e| failed("opening the token file's lock", &e))?;
    lock.lock().map_err(|e| failed("locking the token file", &e))?;
    let mut tokens = match File::open(path) {
        Ok(file) => read(file).map_err(|e| e.at(path))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(failed("opening the token file", &e)),
    };
    work(&mut tokens).map_err(|e| e.at(path))?;
    let entries: Vec<_> = tokens.iter().map(TokenEntry::to_json).collect();
    let text = serde_json::to_string_pretty(&json!({"version": 1, "tokens": entries})).unwrap_or_default();
    let part = beside(path, ".part");
    let mut create = OpenOptions::new();
    create.write(true).create(true).truncate(true).mode(0o600);
    let write = || -> std::io::Result<()> {
        let mut file = create.open(&part)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|e| failed("writing the token file", &e))
}

// ---- tokens in the server ----

/// The time of the file's last change, its size and its number. Programs may set the time of the last write, but not this one.
type FileStamp = Option<((i64, i64), u64, u64)>;

fn stamp(path: &Path) -> FileStamp {
    let data = fs::metadata(path).ok()?;
    Some(((data.ctime(), data.ctime_nsec()), data.len(), data.ino()))
}

/// Whether a later change of a file with this stamp has another one: times of files are those of the system's last tick.
fn is_settled(stamp: FileStamp) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    stamp.is_some_and(|((changed, _), ..)| u64::try_from(changed).is_ok_and(|changed| changed + SETTLED < now))
}

/// The tokens of a file that may change.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// `None`: only tokens of this process.
    path: Option<PathBuf>,
    by_id: RwLock<HashMap<String, Arc<TokenEntry>>>,
    seen: Mutex<FileState>,
    /// The hash compared with unknown ids.
    nobody: TokenEntry,
}

/// What is known of the file.
#[derive(Debug)]
struct FileState {
    looked: Instant,
    stamp: FileStamp,
    /// Whether it need not be read again as long as it has that stamp.
    is_final: bool,
    /// Why it can't be read.
    problem: Option<String>,
}

impl FileState {
    fn now(stamp: FileStamp, is_final: bool) -> FileState {
        FileState { looked: Instant::now(), stamp, is_final, problem: None }
    }
}

impl Tokens {
    /// # Errors
    /// As [`list_tokens`].
    pub fn open(path: &Path) -> Result<Tokens> {
        let stamp = stamp(path);
        let seen = Mutex::new(FileState::now(stamp, is_settled(stamp)));
        let by_id = RwLock::new(by_id(list_tokens(path)?));
        let rights = Rights::default();
        let salt = random::<16>()?.to_vec();
        let hash = random::<32>()?.to_vec();
        let nobody = TokenEntry { name: String::new(), rights, id: String::new(), salt, hash };
        Ok(Tokens { path: Some(path.to_path_buf()), by_id, seen, nobody })
    }

    /// A token for this process only, which may read everything, and its secret.
    pub fn temporary() -> Result<(Tokens, String)> {
        let id = hex(&random::<4>()?);
        let secret = hex(&random::<32>()?);
        let salt = random::<16>()?.to_vec();
        let rights = Rights { read: vec!["*".into()], write: Vec::new() };
        let hash = hash(&salt, &secret).to_vec();
        let entry = TokenEntry { name: "view".into(), rights, id: id.clone(), salt, hash };
        let nobody = TokenEntry { name: String::new(), rights: Rights::default(), ..entry.clone() };
        let by_id = RwLock::new(by_id(vec![entry]));
        let seen = Mutex::new(FileState::now(None, true));
        Ok((Tokens { path: None, by_id, seen, nobody }, format!("aw_{id}_{secret}")))
    }

    /// The entry of `token`, if it is valid.
    pub fn find(&self, token: &str) -> Option<Arc<TokenEntry>> {
        self.look();
        let (id, secret) = token.strip_prefix("aw_").and_then(|rest| rest.split_once('_')).unwrap_or_default();
        let known = self.by_id.read_ignoring_poison().get(id).cloned();
        let fits = known.as_deref().unwrap_or(&self.nobody).fits(secret);
        known.filter(|_| fits)
    }

    /// Whether the entry still exists, unchanged.
    pub fn is_valid(&self, entry: &TokenEntry) -> bool {
        self.look();
        let known = self.by_id.read_ignoring_poison();
        known.get(&entry.id).is_some_and(|known| **known == *entry)
    }

    /// Rereads the file if it has changed. An unreadable file has no tokens.
    fn look(&self) {
        let Some(path) = &self.path else { return };
        let mut seen = self.seen.lock_ignoring_poison();
        if seen.looked.elapsed() < LOOK {
            return;
        }
        seen.looked = Instant::now();
        if !seen.is_final || seen.stamp != stamp(path) {
            self.read_again(path, &mut seen);
        }
    }

    /// Rereads the file now.
    pub fn reload(&self) {
        if let Some(path) = &self.path {
            self.read_again(path, &mut self.seen.lock_ignoring_poison());
        }
    }

    /// Whether the file can't be read.
    pub fn has_problem(&self) -> bool {
        self.look();
        self.seen.lock_ignoring_poison().problem.is_some()
    }

    /// Under the lock of `seen`: a thread that has read an older version does not write it over this one.
    fn read_again(&self, path: &Path, seen: &mut FileState) {
        let stamp = stamp(path);
        let (tokens, problem) = match list_tokens(path) {
            Ok(tokens) => (tokens, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        *self.by_id.write_ignoring_poison() = by_id(tokens);
        // What can't be read is tried again: there may be no file descriptor for it just now.
        (seen.stamp, seen.is_final) = (stamp, problem.is_none() && is_settled(stamp));
        if let Some(problem) = problem.as_ref().filter(|problem| seen.problem.as_ref() != Some(problem)) {
            log::message(format_args!("no token is valid: {problem}"));
        }
        seen.problem = problem;
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
    fn a_token_is_found_by_its_secret_alone() {
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
    fn a_token_ends_when_the_file_says_so() {
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
        // An unreadable file has none; once it is readable again, it has them.
        let token = add_token(&file, "s2", Rights::all()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(list_tokens(&file).unwrap_err().kind(), ErrorKind::PermissionDenied);
        wait_until("a look at the file as it is now", || {
            assert!(tokens.find(&token).is_none());
            tokens.seen.lock().unwrap().stamp == stamp(&file)
        });
    }

    /// A thread that reads an older list takes its time, by a pipe instead of the file, while another one finds a newer list.
    #[test]
    fn the_newer_of_two_lists_is_in_force() {
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
        // The clock must pass: before that nobody looks at the file.
        let wait = || std::thread::sleep(LOOK + Duration::from_millis(50));
        std::thread::scope(|scope| {
            fs::rename(&pipe, &file).unwrap();
            wait();
            scope.spawn(|| tokens.find(&in_older));
            // Until the thread has opened it.
            let mut pipe = OpenOptions::new().write(true).open(&named).unwrap();
            fs::remove_file(&file).unwrap();
            let in_newer = add_token(&file, "s2", Rights::all()).unwrap();
            wait();
            let (tokens, token) = (&tokens, in_newer.clone());
            let other = scope.spawn(move || tokens.find(&token).is_some());
            // One that did not wait for the first would be done by now.
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
    fn files_that_are_none_are_refused() {
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
    fn stars_stand_for_any_characters() {
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
