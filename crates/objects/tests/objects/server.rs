//! A web server of one object, by ranges. It counts what it is asked for, and does not always do what it should.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood_objects::Options;

use super::wait::{PATIENCE, within_patience};

/// What the server does wrong, from its second answer on unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    None,
    /// From the first answer on: the whole object, whatever was asked for.
    WholeObject,
    /// From the first answer on: this status, and nothing else.
    Status(u16),
    /// From the first answer on: the object has another size.
    Size(u64),
    /// Another range than was asked for.
    OtherRange,
    /// Less than was promised, and the connection ends.
    Short,
    /// Less than was promised, in the headers as well.
    ShortSaid,
    /// More than was promised.
    Long,
    /// The answer does not begin.
    Silent,
    /// The answer does not go on.
    Stall,
    /// The object has become another one.
    Replaced,
    /// The object has become another one, and the condition of the request is ignored.
    ReplacedInSecret,
    /// Other bytes of the same object.
    OtherBytes,
    /// A header that doesn't end.
    EndlessHeader,
    /// No tag, nor a time.
    NoTag,
}

/// Fills a slice with the bytes at an offset.
pub type Content = Arc<dyn Fn(u64, &mut [u8]) + Send + Sync>;

pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    size: u64,
    content: Content,
    lie: Mutex<Lie>,
    requests: AtomicU64,
    sent: AtomicU64,
    most_at_once: AtomicU64,
    at_once: AtomicU64,
    ended: AtomicBool,
    delay: Mutex<Duration>,
    gathered: AtomicU64,
}

impl Server {
    pub fn of_bytes(bytes: Vec<u8>) -> Server {
        let size = bytes.len() as u64;
        Server::new(size, Arc::new(move |at, into| into.copy_from_slice(&bytes[at as usize..at as usize + into.len()])))
    }

    pub fn new(size: u64, content: Content) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            size,
            content,
            lie: Mutex::new(Lie::None),
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            most_at_once: AtomicU64::new(0),
            at_once: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            delay: Mutex::new(Duration::ZERO),
            gathered: AtomicU64::new(0),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let state = shared.clone();
                // A client that goes is no error.
                std::thread::spawn(move || state.serve(stream));
            }
        });
        Server { address, state }
    }

    pub fn lying(bytes: Vec<u8>, lie: Lie) -> Server {
        let server = Server::of_bytes(bytes);
        server.lie(lie);
        server
    }

    pub fn lie(&self, lie: Lie) {
        *self.state.lie.lock().unwrap() = lie;
    }

    /// No request is answered before there were so many at a time; from then on each answer takes this long.
    pub fn slow(&self, gathered: u64, delay: Duration) {
        self.state.gathered.store(gathered, Ordering::Relaxed);
        *self.state.delay.lock().unwrap() = delay;
    }

    pub fn url(&self) -> String {
        format!("http://{}/data/file.arrow", self.address)
    }

    /// Requests and bytes since the last call.
    pub fn counted(&self) -> (u64, u64) {
        (self.state.requests.swap(0, Ordering::Relaxed), self.state.sent.swap(0, Ordering::Relaxed))
    }

    pub fn most_at_once(&self) -> u64 {
        self.state.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Options for a server that answers, however busy the machine is; bytes that were not fetched are no zeros.
pub fn options() -> Options {
    Options { timeout: PATIENCE, poison: Some(0xa5), ..Options::default() }
}

/// Options for one that does not.
pub fn impatient() -> Options {
    Options { timeout: Duration::from_millis(700), ..options() }
}

/// Says nothing more, and waits until the client has gone.
fn until_it_goes(mut client: &TcpStream) -> io::Result<bool> {
    client.set_read_timeout(Some(PATIENCE))?;
    io::copy(&mut client, &mut io::sink()).map(|_| false)
}

impl State {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?);
        loop {
            let mut range = None;
            let mut condition = None;
            loop {
                let mut line = String::new();
                if input.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(asked) = line.strip_prefix("range: bytes=") {
                    range = Some(self.range(asked));
                }
                if let Some(tag) = line.strip_prefix("if-match: ") {
                    condition = Some(tag.to_owned());
                }
                if line.is_empty() {
                    break;
                }
            }
            let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(now, Ordering::Relaxed);
            let is_enough = || self.most_at_once.load(Ordering::Relaxed) >= self.gathered.load(Ordering::Relaxed);
            // Whoever sends too few finds that out by `most_at_once`.
            within_patience(|| is_enough().then_some(()));
            // No wait, but the server's slowness.
            std::thread::sleep(*self.delay.lock().unwrap());
            let answered = self.answer(&stream, range, condition);
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            if !answered? {
                return Ok(());
            }
        }
    }

    fn range(&self, asked: &str) -> Range<u64> {
        match asked.split_once('-').unwrap() {
            ("", last) => self.size.saturating_sub(last.parse().unwrap())..self.size,
            (first, last) => first.parse().unwrap()..(last.parse::<u64>().unwrap() + 1).min(self.size),
        }
    }

    /// Whether the connection goes on.
    fn answer(&self, mut out: &TcpStream, range: Option<Range<u64>>, condition: Option<String>) -> io::Result<bool> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let lie = *self.lie.lock().unwrap();
        let begins = matches!(lie, Lie::WholeObject | Lie::Status(_) | Lie::Size(_) | Lie::NoTag);
        let lie = if number == 0 && !begins { Lie::None } else { lie };
        let tag = if matches!(lie, Lie::Replaced | Lie::ReplacedInSecret) { "\"two\"" } else { "\"one\"" };
        let tags = if lie == Lie::NoTag { String::new() } else { format!("ETag: {tag}\r\n") };
        let is_other = condition.is_some_and(|condition| condition != tag) && lie != Lie::ReplacedInSecret;
        let refused = match lie {
            Lie::Status(status) => Some(status),
            _ if self.size == 0 => Some(416),
            _ if is_other => Some(412),
            _ => None,
        };
        if let Some(status) = refused {
            write!(out, "HTTP/1.1 {status} No\r\nContent-Length: 4\r\n\r\nsigh")?;
            return Ok(true);
        }
        match lie {
            Lie::Silent => return until_it_goes(out),
            Lie::EndlessHeader => {
                write!(out, "HTTP/1.1 206 Yes\r\n")?;
                for _ in 0..1 << 24 {
                    write!(out, "X-{0}: {0}\r\n", "a".repeat(4000))?;
                }
                return Ok(false);
            }
            _ => (),
        }
        let Some(asked) = range.filter(|_| lie != Lie::WholeObject) else {
            write!(out, "HTTP/1.1 200 Yes\r\n{tags}Content-Length: {}\r\n\r\n", self.size)?;
            return self.send(out, 0..self.size).map(|()| true);
        };
        let said = if lie == Lie::OtherRange { asked.start + 1..asked.end + 1 } else { asked.clone() };
        let size = if let Lie::Size(size) = lie { size } else { self.size };
        let said = if let Lie::Size(size) = lie { size - (asked.end - asked.start)..size } else { said };
        let len = match lie {
            Lie::ShortSaid => (asked.end - asked.start) / 2,
            Lie::Long => asked.end - asked.start + (1 << 20),
            _ => asked.end - asked.start,
        };
        write!(out, "HTTP/1.1 206 Yes\r\n{tags}Content-Length: {len}\r\n")?;
        write!(out, "Content-Range: bytes {}-{}/{size}\r\n\r\n", said.start, said.end - 1)?;
        let half = asked.start..asked.start + (asked.end - asked.start) / 2;
        match lie {
            Lie::Short | Lie::ShortSaid => self.send(out, half).map(|()| lie == Lie::ShortSaid),
            Lie::Stall => {
                self.send(out, half)?;
                until_it_goes(out)
            }
            Lie::Long => {
                self.send(out, asked)?;
                out.write_all(&vec![7; 1 << 20]).map(|()| true)
            }
            Lie::OtherBytes => out.write_all(&vec![0xff; len as usize]).map(|()| true),
            _ => self.send(out, asked).map(|()| true),
        }
    }

    fn send(&self, mut out: &TcpStream, range: Range<u64>) -> io::Result<()> {
        let mut piece = vec![0; 64 << 10];
        for at in range.clone().step_by(piece.len()) {
            let piece = &mut piece[..(range.end - at).min(64 << 10) as usize];
            (self.content)(at, piece);
            out.write_all(piece)?;
            self.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
